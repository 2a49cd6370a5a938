// SHA-256 (FIPS 180-4).
#pragma once

#include <cstddef>
#include <string>

namespace inductor_npu::package {

// The digest of `bytes` bytes at `data`, as 64 hexadecimal digits in lower case.
std::string sha256(const void* data, size_t bytes);

}  // namespace inductor_npu::package
