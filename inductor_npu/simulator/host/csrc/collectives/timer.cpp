// The time stamps of DistributedDataParallel's statistics (torch/csrc/distributed/c10d/reducer_timer.hpp).
#include <torch/csrc/distributed/c10d/reducer_timer.hpp>

#include <array>
#include <optional>

#include "runtime.h"

namespace inductor_npu {
namespace {

struct NpuTimer final : c10d::Timer {
  explicit NpuTimer(c10::Device device) : device_(device.index()) {
    for (driver::Event*& event : events_) {
      event = driver::create_event(/*timing=*/true);
    }
  }
  ~NpuTimer() override {
    for (driver::Event* event : events_) {
      driver::destroy(event);
    }
  }

  void record(Event event) override {
    Timer::record(event);
    driver::record(events_[static_cast<size_t>(event)], native(current_stream(device_)));
  }

  // Nanoseconds; nothing if they do not follow each other.
  std::optional<int64_t> measureDifference(Event start, Event end) override {
    driver::Event* from = events_[static_cast<size_t>(start)];
    driver::Event* to = events_[static_cast<size_t>(end)];
    if (driver::stream_of(from) == nullptr || driver::stream_of(to) == nullptr) {
      return std::nullopt;
    }
    driver::synchronize(to);
    const double milliseconds = driver::elapsed_ms(from, to);
    return milliseconds < 0 ? std::nullopt : std::make_optional(static_cast<int64_t>(milliseconds * 1e6));
  }

 private:
  const c10::DeviceIndex device_;
  std::array<driver::Event*, 5> events_{};
};

}  // namespace
}  // namespace inductor_npu

namespace c10d {
C10_REGISTER_TYPED_CLASS(TimerRegistry, c10::DeviceType::PrivateUse1, inductor_npu::NpuTimer)
}  // namespace c10d
