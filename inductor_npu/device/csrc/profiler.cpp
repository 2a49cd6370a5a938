// torch.profiler's view of the device: PyTorch records an event before and after each operator and asks for the time
// between them.
#include <c10/util/ApproximateClock.h>
#include <torch/csrc/profiler/stubs/base.h>

#include <functional>
#include <memory>

#include "runtime.h"

namespace inductor_npu {
namespace {

driver::Event* event_of(const torch::profiler::impl::ProfilerVoidEventStub* stub) {
  return static_cast<driver::Event*>(stub->get());
}

struct Stubs final : torch::profiler::impl::ProfilerStubs {
  void record(c10::DeviceIndex* device, torch::profiler::impl::ProfilerVoidEventStub* event,
              int64_t* cpu_ns) const override {
    if (device != nullptr) {
      *device = current_device();
    }
    *event = {driver::create_event(/*timing=*/true),
              [](void* made) { driver::destroy(static_cast<driver::Event*>(made)); }};
    if (cpu_ns != nullptr) {
      *cpu_ns = c10::getTime();
    }
    driver::record(event_of(event), native(current_stream()));
  }

  // Microseconds.
  float elapsed(const torch::profiler::impl::ProfilerVoidEventStub* start,
                const torch::profiler::impl::ProfilerVoidEventStub* end) const override {
    driver::synchronize(event_of(start));
    driver::synchronize(event_of(end));
    return static_cast<float>(driver::elapsed_ms(event_of(start), event_of(end)) * 1000.0);
  }

  // Named ranges are for tools outside the process; there are none for this device.
  void mark(const char* /*name*/) const override {}
  void rangePush(const char* /*name*/) const override {}
  void rangePop() const override {}

  bool enabled() const override { return true; }

  void onEachDevice(std::function<void(int)> visit) const override {
    const c10::DeviceIndex before = current_device();
    for (c10::DeviceIndex device = 0; device < device_count(); ++device) {
      set_device(device);
      visit(device);
    }
    set_device(before);
  }

  void synchronize() const override { synchronize_device(); }
};

const bool registered = [] {
  static Stubs stubs;
  torch::profiler::impl::registerPrivateUse1Methods(&stubs);
  return true;
}();

}  // namespace
}  // namespace inductor_npu
