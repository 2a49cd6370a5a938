// Device, stream and event guards: what PyTorch's device-independent code calls.
#include <c10/core/impl/DeviceGuardImplInterface.h>

#include <string>

#include "allocator.h"
#include "runtime.h"
#include "timeline.h"

namespace inductor_npu {
namespace {

driver::Event* as_event(void* event) {
  return static_cast<driver::Event*>(event);
}

c10::DeviceIndex index_of(c10::Device device) {
  TORCH_CHECK(device.type() == kNpu, "Expected device npu, got ", device);
  return device.index();
}

struct GuardImpl final : c10::impl::DeviceGuardImplInterface {
  static constexpr c10::DeviceType static_type = kNpu;

  c10::DeviceType type() const override { return kNpu; }

  // --- Devices -------------------------------------------------------------------------------------------------------
  c10::Device exchangeDevice(c10::Device device) const override { return {kNpu, exchange_device(index_of(device))}; }
  c10::Device getDevice() const override { return {kNpu, current_device()}; }
  void setDevice(c10::Device device) const override { set_device(index_of(device)); }
  void uncheckedSetDevice(c10::Device device) const noexcept override {
    if (device.index() >= 0 && device.index() < device_count()) {
      set_device(device.index());
    }
  }
  c10::DeviceIndex deviceCount() const noexcept override { return device_count(); }
  void synchronizeDevice(c10::DeviceIndex device) const override { synchronize_device(device); }

  // Every dtype: what the chip's own units lack runs on the host.
  c10::DeviceCapability getDeviceCapability(c10::Device /*device*/) const override { return {}; }

  // --- Streams -------------------------------------------------------------------------------------------------------
  c10::Stream getStream(c10::Device device) const override { return current_stream(device.index()); }
  c10::Stream getDefaultStream(c10::Device device) const override { return default_stream(device.index()); }
  c10::Stream getStreamFromGlobalPool(c10::Device device, bool high_priority) const override {
    return stream_from_pool(device.index(), high_priority ? -1 : 0);
  }
  c10::Stream getNewStream(c10::Device device, int priority) const override {
    return stream_from_pool(device.index(), priority);
  }
  c10::Stream exchangeStream(c10::Stream stream) const override { return exchange_stream(stream); }
  void* getStreamNativeHandle(const c10::Stream stream) const override { return native(stream); }
  bool queryStream(const c10::Stream& stream) const override { return query_stream(stream); }
  void synchronizeStream(const c10::Stream& stream) const override { synchronize_stream(stream); }
  // Not in every torch that we know.
  bool isStreamCapturing(const c10::Stream& stream) const { return driver::capture_of(native(stream)) != 0; }
  void recordDataPtrOnStream(const c10::DataPtr& pointer, const c10::Stream& stream) const override {
    device_allocator()->recordStream(pointer, stream);
  }

  // --- Events --------------------------------------------------------------------------------------------------------
  void record(void** event, const c10::Stream& stream, const c10::DeviceIndex device,
              const c10::EventFlag flag) const override {
    TORCH_CHECK(device == -1 || device == stream.device_index(), "An event of npu:", static_cast<int>(device),
                " cannot be recorded on a stream of npu:", static_cast<int>(stream.device_index()));
    driver::Stream* queue = native(stream);
    if (*event == nullptr) {
      *event = driver::create_event(/*timing=*/flag == c10::EventFlag::BACKEND_DEFAULT);
    }
    driver::record(as_event(*event), queue);
  }
  void block(void* event, const c10::Stream& stream) const override {
    if (event != nullptr) {
      driver::block(as_event(event), native(stream));
    }
  }
  bool queryEvent(void* event) const override { return event == nullptr || driver::query(as_event(event)); }
  void synchronizeEvent(void* event) const override {
    if (event != nullptr) {
      const timeline::Call call("npuEventSynchronize");
      ensure_open();
      driver::synchronize(as_event(event));
      if (driver::Stream* stream = driver::stream_of(as_event(event))) {
        raise_failure(stream);
      }
    }
  }
  double elapsedTime(void* start, void* end, const c10::DeviceIndex /*device*/) const override {
    TORCH_CHECK(start != nullptr && end != nullptr, "elapsed_time: both events must be recorded first");
    TORCH_CHECK(driver::has_timing(as_event(start)) && driver::has_timing(as_event(end)),
                "elapsed_time: both events must be created with enable_timing=True");
    TORCH_CHECK(driver::query(as_event(start)) && driver::query(as_event(end)),
                "elapsed_time: the device has not reached both events yet; synchronize the later one first");
    return driver::elapsed_ms(as_event(start), as_event(end));
  }
  void destroyEvent(void* event, const c10::DeviceIndex /*device*/) const noexcept override {
    driver::destroy(as_event(event));
  }
};

const c10::impl::DeviceGuardImplRegistrar registered(kNpu, new GuardImpl());

}  // namespace
}  // namespace inductor_npu
