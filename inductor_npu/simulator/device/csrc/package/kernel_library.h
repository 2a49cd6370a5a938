// Compiled kernels of a package: a shared library that is loaded from memory.
#pragma once

#include <string>
#include <vector>

#include "kernel.h"
#include "package/archive.h"

namespace inductor_npu::package {

// A kernel, and how it takes its arguments: one letter each, as in _C.KernelLauncher.
struct PackagedKernel {
  const Kernel* kernel;
  std::string arguments;
};

// Loads the libraries that the manifest names, and registers their kernels, in its order. A library that another
// package brought is loaded once. Throws PackageError.
std::vector<PackagedKernel> load_kernels(const Contents& contents);

}  // namespace inductor_npu::package
