// A kernel that was compiled for a GPU.
#pragma once

#include <cuda.h>

#include <string>
#include <utility>

#include "kernel.h"

namespace inductor_npu {

struct CudaKernel : Kernel {
  CudaKernel(std::string name, CUkernel kernel, unsigned threads, unsigned shared_bytes)
      : Kernel(std::move(name)), kernel(kernel), threads(threads), shared_bytes(shared_bytes) {}

  const CUkernel kernel;        // of no context: it runs on every device
  const unsigned threads;       // of one program
  const unsigned shared_bytes;  // of one program, beside what the code says itself
};

struct LoadedKernel {
  const CudaKernel* kernel;
  CUlibrary library;
  int registers, spilled_words, most_threads;  // of one thread; in one program
};

// Loads the kernel `name` of `image`, a cubin. Raises c10::Error if the current device cannot run it.
LoadedKernel load_kernel(std::string name, const std::string& image, unsigned shared_bytes, unsigned threads);

}  // namespace inductor_npu
