// Errors of CUDA's driver, and the context that its functions want.
#pragma once

#include <cuda.h>

#include <string>

namespace inductor_npu {

// What a result means, with its name.
std::string describe(CUresult result);

// Raises c10::Error if `result` is an error; `what` says what failed.
void check_cuda(CUresult result, const char* what);

// Makes the context of `device` current for this thread while it lives: the one that PyTorch's CUDA operators have, too.
class OnGpu {
 public:
  explicit OnGpu(int device);
  ~OnGpu();
  OnGpu(const OnGpu&) = delete;
  OnGpu& operator=(const OnGpu&) = delete;

 private:
  bool pushed_ = false;
};

}  // namespace inductor_npu
