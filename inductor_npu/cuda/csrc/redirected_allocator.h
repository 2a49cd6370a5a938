// Results of CUDA's operators in memory of npu.
#pragma once

namespace inductor_npu {

// From here on, what a thread allocates as memory of CUDA while it runs an operator for an npu (library::AllocateOn) is
// memory of that npu. All other memory of CUDA comes from PyTorch's allocator, as before.
void redirect_allocations();

}  // namespace inductor_npu
