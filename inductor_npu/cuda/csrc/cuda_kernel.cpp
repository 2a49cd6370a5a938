#include "cuda_kernel.h"

#include <c10/util/Exception.h>

#include "cuda_errors.h"
#include "runtime.h"

namespace inductor_npu {
namespace {

constexpr unsigned kSharedWithoutAsking = 48 * 1024;  // more has to be asked for

int attribute(CUfunction_attribute which, CUkernel kernel, CUdevice device) {
  int value = 0;
  check_cuda(cuKernelGetAttribute(&value, which, kernel, device), "asking what a kernel needs");
  return value;
}

}  // namespace

LoadedKernel load_kernel(std::string name, const std::string& image, unsigned shared_bytes, unsigned threads) {
  const int index = current_device();
  const OnGpu here(index);
  CUdevice device{};
  check_cuda(cuDeviceGet(&device, index), "finding the device");
  CUlibrary library{};
  const CUresult loaded = cuLibraryLoadData(&library, image.data(), nullptr, nullptr, 0, nullptr, nullptr, 0);
  TORCH_CHECK(loaded == CUDA_SUCCESS, "kernel ", name, " cannot be loaded: ", describe(loaded));
  CUkernel kernel{};
  check_cuda(cuLibraryGetKernel(&kernel, library, name.c_str()), "finding a kernel in its code");
  if (shared_bytes > kSharedWithoutAsking) {
    check_cuda(cuKernelSetAttribute(CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, static_cast<int>(shared_bytes),
                                    kernel, device),
               "asking for shared memory");
  }
  const int registers = attribute(CU_FUNC_ATTRIBUTE_NUM_REGS, kernel, device);
  const int spilled = attribute(CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES, kernel, device) / 4;
  const int most = attribute(CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK, kernel, device);
  return {new CudaKernel(std::move(name), kernel, threads, shared_bytes), library, registers, spilled, most};
}

}  // namespace inductor_npu
