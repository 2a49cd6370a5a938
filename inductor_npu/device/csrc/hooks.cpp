// The accelerator hooks: how PyTorch's core finds the device's generators, pinned memory and storage resizing.
#include <ATen/core/CachingHostAllocator.h>
#include <ATen/detail/PrivateUse1HooksInterface.h>
#include <c10/core/StorageImpl.h>

#include <algorithm>

#include "allocator.h"
#include "generator.h"
#include "runtime.h"

namespace inductor_npu {
namespace {

struct Hooks final : at::PrivateUse1HooksInterface {
  bool isBuilt() const override { return true; }
  bool isAvailable() const override { return device_count() > 0; }
  bool hasPrimaryContext(c10::DeviceIndex /*device*/) const override { return is_open(); }
  void init() const override { ensure_open(); }

  c10::DeviceIndex deviceCount() const override { return device_count(); }
  void setCurrentDevice(c10::DeviceIndex device) const override { set_device(device); }
  c10::DeviceIndex getCurrentDevice() const override { return current_device(); }
  c10::DeviceIndex exchangeDevice(c10::DeviceIndex device) const override { return exchange_device(device); }
  c10::DeviceIndex maybeExchangeDevice(c10::DeviceIndex device) const override {
    return device >= 0 && device < device_count() ? exchange_device(device) : current_device();
  }

  const at::Generator& getDefaultGenerator(c10::DeviceIndex device) const override { return default_generator(device); }
  at::Generator getNewGenerator(c10::DeviceIndex device) const override { return new_generator(device); }

  bool isPinnedPtr(const void* pointer) const override { return is_pinned_pointer(pointer); }
  at::Allocator* getPinnedMemoryAllocator() const override { return at::getHostAllocator(kNpu); }

  at::Device getDeviceFromPtr(void* pointer) const override {
    const c10::DeviceIndex device = device_of_pointer(pointer);
    TORCH_CHECK(device != -1, "The pointer ", pointer, " does not lie in memory of device npu");
    return {kNpu, device};
  }

  void resizePrivateUse1Bytes(const c10::Storage& storage, size_t size) const override {
    c10::StorageImpl* impl = storage.unsafeGetStorageImpl();
    TORCH_CHECK(impl->resizable(), "Trying to resize npu storage that is not resizable");
    const c10::DeviceIndex before = exchange_device(impl->device().index());
    c10::DataPtr memory;
    try {
      memory = impl->allocator()->allocate(size);
    } catch (...) {
      set_device(before);
      throw;
    }
    set_device(before);
    const size_t kept = std::min(impl->nbytes(), size);
    if (kept > 0) {
      // In order with the work that fills the old memory; that memory returns to this stream's pool.
      const c10::Stream stream = current_stream(impl->device().index());
      copy_async(stream, memory.get(), impl->data(), kept);
      device_allocator()->recordStream(impl->data_ptr(), stream);
    }
    impl->set_data_ptr_noswap(std::move(memory));
    impl->set_nbytes(size);
  }
};

const bool registered = [] {
  at::RegisterPrivateUse1HooksInterface(new Hooks());
  return true;
}();

}  // namespace
}  // namespace inductor_npu
