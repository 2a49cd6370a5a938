// The C functions that compiled kernels call. A kernel that is linked into this process gets their addresses by name;
// one in a shared library (package/kernel_library.h) finds them by name itself.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

namespace inductor_npu {

std::vector<std::pair<const char*, uint64_t>> kernel_symbols();

}  // namespace inductor_npu
