// CUDA's own stream behind one of the runtime's.
#pragma once

#include <cuda.h>

namespace inductor_npu::driver {

struct Stream;

CUstream native_stream(const Stream* stream) noexcept;

}  // namespace inductor_npu::driver
