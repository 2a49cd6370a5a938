#include "cuda_errors.h"

#include <c10/util/Exception.h>

#include <array>
#include <atomic>
#include <mutex>

#include "runtime.h"

namespace inductor_npu {
namespace {

// A primary context takes some hundred megabytes of its device: it is made when the device is used first, and stays.
CUcontext context_of(int device) {
  static std::array<std::atomic<CUcontext>, kMaxDevices> contexts{};
  static std::mutex making;
  CUcontext context = contexts[device].load(std::memory_order_acquire);
  if (C10_LIKELY(context != nullptr)) {
    return context;
  }
  std::lock_guard<std::mutex> lock(making);
  if (contexts[device].load() == nullptr) {
    CUdevice handle{};
    check_cuda(cuDeviceGet(&handle, device), "finding the device");
    check_cuda(cuDevicePrimaryCtxRetain(&context, handle), "making the context of the device");
    contexts[device].store(context, std::memory_order_release);
  }
  return contexts[device].load();
}

}  // namespace

std::string describe(CUresult result) {
  const char *name = nullptr, *text = nullptr;
  cuGetErrorName(result, &name);
  cuGetErrorString(result, &text);
  return std::string(text != nullptr ? text : "unknown error") + " (" +
         (name != nullptr ? name : std::to_string(static_cast<int>(result))) + ")";
}

void check_cuda(CUresult result, const char* what) {
  TORCH_CHECK(result == CUDA_SUCCESS, "npu: ", what, " failed: ", describe(result));
}

OnGpu::OnGpu(int device) {
  CUcontext current = nullptr;
  cuCtxGetCurrent(&current);
  const CUcontext wanted = context_of(device);
  if (C10_LIKELY(current == wanted)) {
    return;
  }
  if (current == nullptr && device == 0) {
    check_cuda(cuCtxSetCurrent(wanted), "making the device current");  // what CUDA's runtime would do at its first call
    return;
  }
  check_cuda(cuCtxPushCurrent(wanted), "making the device current");
  pushed_ = true;
}

OnGpu::~OnGpu() {
  if (C10_UNLIKELY(pushed_)) {
    CUcontext popped = nullptr;
    cuCtxPopCurrent(&popped);
  }
}

}  // namespace inductor_npu
