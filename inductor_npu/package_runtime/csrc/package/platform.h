// What packages need of the runtime of device npu below them. Each provider has these functions, linked with this code.
#pragma once

#include <ATen/core/ivalue.h>
#include <c10/core/Device.h>
#include <c10/util/ArrayRef.h>

#include <array>
#include <memory>
#include <vector>

#include "package/archive.h"

namespace inductor_npu::package {

constexpr c10::DeviceType kNpuDevice = c10::DeviceType::PrivateUse1;

// A kernel of a package, loaded. Threads may share it.
class PackagedKernel {
 public:
  virtual ~PackagedKernel() = default;
  virtual size_t argument_count() const = 0;
  // Queues a launch on the current stream of `device`, which is the current device. An empty grid launches nothing.
  // Throws c10::Error where an argument does not fit the kernel's.
  virtual void launch(const std::array<int64_t, 3>& grid, c10::ArrayRef<c10::IValue> arguments,
                      c10::Device device) const = 0;
};
using Kernels = std::vector<std::shared_ptr<const PackagedKernel>>;

// Throws PackageError where the package with this manifest is for another provider, target or processor.
void check_fits_platform(const Json& manifest);

// Has device npu `device` ready. Throws PackageError or c10::Error where there is no such device.
void open_platform(const Json& manifest, int device);

// The kernels that the manifest names, in its order, for `device`, which is current. What another package brought is
// loaded once. Nothing is unloaded: work that is queued anywhere may need it. Throws PackageError.
Kernels load_kernels(const Contents& contents, c10::Device device);

}  // namespace inductor_npu::package
