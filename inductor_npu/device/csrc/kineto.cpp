// Hands the time line to torch.profiler, as the profiler of PyTorch's profiling library (Kineto) for this device.
#if __has_include(<libkineto.h>)  // a PyTorch built without Kineto has no torch.profiler

// As PyTorch is built; its libraries do not export fmt.
#define USE_KINETO
#define FMT_HEADER_ONLY 1

#include <fmt/format.h>
#include <libkineto.h>
#include <output_base.h>
#if __has_include(<torch/csrc/profiler/standalone/privateuse1_profiler.h>)
#include <torch/csrc/profiler/standalone/privateuse1_profiler.h>
#define HAS_PROFILER_REGISTRY  // torch 2.12 and later
#endif

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <tuple>
#include <type_traits>
#include <vector>

#include "library.h"
#include "runtime.h"
#include "spin.h"
#include "timeline.h"

namespace inductor_npu {
namespace {

using libkineto::ActivityType;
using timeline::Activity;
using timeline::Kind;

const std::string kName = "npu";

// Two clocks read at the same time, in nanoseconds.
struct Clocks {
  int64_t steady, system;
};

int64_t system_ns() {
  const auto since_epoch = std::chrono::system_clock::now().time_since_epoch();
  return std::chrono::duration_cast<std::chrono::nanoseconds>(since_epoch).count();
}

Clocks read_clocks() {
  constexpr int kTries = 5;
  Clocks best{};
  int64_t least = INT64_MAX;
  for (int i = 0; i < kTries; ++i) {
    const int64_t before = now_ns();
    const int64_t system = system_ns();
    const int64_t after = now_ns();
    if (after - before < least) {
      least = after - before;
      best = {before + least / 2, system};
    }
  }
  return best;
}

// The system's time at `steady`, which lies between two readings. Where the system's clock was slewed meanwhile, by
// more than the readings err, time is stretched; else durations stay exact.
int64_t system_time(const Clocks& first, const Clocks& last, int64_t steady) {
  constexpr int64_t kError = 20'000;
  const int64_t since = steady - first.steady, span = last.steady - first.steady;
  const int64_t slewed = last.system - first.system - span;
  const bool stretch = std::abs(slewed) > kError && span > 0;
  const double share = stretch ? static_cast<double>(since) / static_cast<double>(span) : 0.0;
  return first.system + since + static_cast<int64_t>(share * static_cast<double>(slewed));
}

ActivityType type_of(Kind kind) {
  switch (kind) {
    case Kind::Kernel:
    case Kind::Operator:
    case Kind::Collective: return ActivityType::CONCURRENT_KERNEL;  // as those of torch.cuda
    case Kind::Copy: return ActivityType::GPU_MEMCPY;
    case Kind::Wait: return ActivityType::GPU_USER_ANNOTATION;  // seen on the stream, but not counted as device time
    case Kind::Call: return ActivityType::PRIVATEUSE1_RUNTIME;
  }
  return ActivityType::ENUM_COUNT;
}

std::string device_label(int device) {
  return fmt::format("NPU {}", device);
}

libkineto::DeviceInfo device_info(int device) {
  return {device, libkineto::kExceedMaxPid + device, fmt::format("npu:{} ({})", device, configuration().target),
          device_label(device)};
}

// Made in two ways: up to torch 2.12 by a constructor with arguments in another order.
template <class Info = libkineto::ResourceInfo>
Info stream_info(int device, int64_t stream) {
  const std::string name = stream == 0 ? "stream 0 (default)" : fmt::format("stream {}", stream);
  if constexpr (std::is_aggregate_v<Info>) {
    return Info{.id = stream, .sortIndex = stream, .deviceId = device, .name = name};
  } else {
    return Info(device, stream, stream, name);
  }
}

// --- One profile -----------------------------------------------------------------------------------------------------

class Session final : public libkineto::IActivityProfilerSession {
 public:
  explicit Session(std::set<ActivityType> wanted) : wanted_(std::move(wanted)) {}

  ~Session() override {
    if (running_) {
      timeline::stop();
    }
  }

  void start() override {
    try {
      timeline::start();
    } catch (const c10::Error& error) {
      fail(error.what_without_backtrace());
      return;
    }
    running_ = true;
    first_ = read_clocks();
    status_ = libkineto::TraceStatus::RECORDING;
  }

  void stop() override {
    if (running_) {
      running_ = false;
      activities_ = timeline::stop();
      last_ = read_clocks();
      status_ = libkineto::TraceStatus::PROCESSING;
    }
  }

  std::vector<std::string> errors() override { return errors_; }

  void processTrace(libkineto::ActivityLogger& logger) override {
    processTrace(logger, [](int32_t) { return nullptr; }, 0, INT64_MAX);
  }

  void processTrace(libkineto::ActivityLogger& logger, libkineto::getLinkedActivityCallback find, int64_t begin,
                    int64_t end) override {
    trace_ = std::make_unique<libkineto::CpuTraceBuffer>();
    trace_->span = libkineto::TraceSpan(begin, end, kName);
    trace_->gpuOpCount = 0;
    std::map<RangeOnStream, Extent> ranges;
    for (const Activity& activity : activities_) {
      const int64_t from = time(activity.begin_ns);
      if (from > end) {
        continue;
      }
      add(activity, from, find);
      if (activity.kind != Kind::Call) {
        streams_.insert({activity.device, activity.row});
        if (activity.origin.range != 0 && activity.kind != Kind::Wait) {
          Extent& extent = ranges[{activity.device, activity.row, activity.origin.range}];
          extent = {std::min(extent.begin, from), std::max(extent.end, time(activity.end_ns))};
        }
      }
    }
    for (const auto& [range, extent] : ranges) {
      add_range(range, extent, find);
    }
    for (const auto& activity : trace_->activities) {
      activity->log(logger);
    }
    for (int device : devices_but_one()) {
      logger.handleDeviceInfo(device_info(device), begin);
    }
    activities_.clear();
  }

  // One of the devices; the others are named in processTrace, since this function has room for one.
  std::unique_ptr<libkineto::DeviceInfo> getDeviceInfo() override {
    return streams_.empty() ? nullptr : std::make_unique<libkineto::DeviceInfo>(device_info(streams_.begin()->first));
  }

  std::vector<libkineto::ResourceInfo> getResourceInfos() override {
    std::vector<libkineto::ResourceInfo> infos;
    for (const auto& [device, stream] : streams_) {
      infos.push_back(stream_info(device, stream));
    }
    return infos;
  }

  std::unique_ptr<libkineto::CpuTraceBuffer> getTraceBuffer() override { return std::move(trace_); }

  void pushCorrelationId(uint64_t id) override { timeline::enter_operator(id); }
  void popCorrelationId() override { timeline::leave(); }
  void pushUserCorrelationId(uint64_t id) override { timeline::enter_range(id); }
  void popUserCorrelationId() override { timeline::leave(); }

 private:
  using RangeOnStream = std::tuple<int, int64_t, uint64_t>;  // device, stream, the profiler's number of the range
  struct Extent {
    int64_t begin = INT64_MAX, end = INT64_MIN;
  };

  void fail(std::string reason) {
    errors_.push_back(std::move(reason));
    status_ = libkineto::TraceStatus::ERROR;
  }

  int64_t time(int64_t steady) const { return system_time(first_, last_, steady); }

  libkineto::GenericTraceActivity& emplace(ActivityType type, const std::string& name, int64_t begin, int64_t end) {
    trace_->emplace_activity(trace_->span, type, name);
    libkineto::GenericTraceActivity& made = *trace_->activities.back();
    made.startTime = begin;
    made.endTime = end;
    return made;
  }

  void add(const Activity& activity, int64_t begin, const libkineto::getLinkedActivityCallback& find) {
    const ActivityType type = type_of(activity.kind);
    if (wanted_.count(type) == 0) {
      return;
    }
    auto& made = emplace(type, activity.name, begin, time(activity.end_ns));
    const bool call = activity.kind == Kind::Call;
    made.id = static_cast<int32_t>(activity.origin.flow);
    made.device = call ? static_cast<int32_t>(getpid()) : activity.device;
    made.resource = static_cast<int32_t>(activity.row);
    made.threadId = call ? static_cast<int32_t>(activity.row) : 0;
    if (activity.queued) {  // an arrow, from the call to the work
      made.flow.id = activity.origin.flow;
      made.flow.type = libkineto::kLinkAsyncCpuGpu;
      made.flow.start = call;
    }
    if (activity.origin.inner != 0 && activity.kind != Kind::Wait) {
      made.linked = find(static_cast<int32_t>(activity.origin.inner));
    }
    if (!call) {
      trace_->gpuOpCount += 1;
      add_facts(activity, made);
    }
  }

  static void add_facts(const Activity& activity, libkineto::GenericTraceActivity& made) {
    made.addMetadata("device", activity.device);
    made.addMetadata("stream", activity.row);
    made.addMetadata("correlation", activity.origin.flow);
    if (activity.kind == Kind::Kernel) {
      const auto& grid = activity.grid;
      made.addMetadata("grid", fmt::format("[{}, {}, {}]", grid[0], grid[1], grid[2]));
    }
    if (activity.queued && activity.origin.queued_ns != 0) {
      const double us = static_cast<double>(activity.begin_ns - activity.origin.queued_ns) * 1e-3;
      made.addMetadata("waited in the queue (us)", fmt::format("{:.3f}", us));
    }
    if (activity.vector_operations != 0 || activity.bytes_read != 0 || activity.bytes_written != 0) {
      made.addMetadata("bytes read", activity.bytes_read);
      made.addMetadata("bytes written", activity.bytes_written);
      made.addMetadata("vector operations", activity.vector_operations);
    }
    if (activity.kind == Kind::Copy) {
      const int64_t ns = std::max<int64_t>(1, activity.end_ns - activity.begin_ns);
      made.addMetadata("bytes", activity.bytes);
      made.addMetadata("memory bandwidth (GB/s)", fmt::format("{:.3f}", static_cast<double>(activity.bytes) / ns));
    }
    if (activity.kind == Kind::Operator) {
      made.addMetadataQuoted("run by", "the host, in the device's place");
    }
  }

  // A named range as it covers a stream, from the first work queued inside it to the last. It has no link, since
  // PyTorch would count it as device time of the range once more.
  void add_range(const RangeOnStream& range, const Extent& extent, const libkineto::getLinkedActivityCallback& find) {
    const auto& [device, stream, number] = range;
    const libkineto::ITraceActivity* named = find(static_cast<int32_t>(number));
    if (named == nullptr || wanted_.count(ActivityType::GPU_USER_ANNOTATION) == 0) {
      return;
    }
    auto& made = emplace(ActivityType::GPU_USER_ANNOTATION, named->name(), extent.begin, extent.end);
    made.id = static_cast<int32_t>(number);
    made.device = device;
    made.resource = static_cast<int32_t>(stream);
  }

  std::set<int> devices_but_one() const {
    std::set<int> devices;
    for (const auto& [device, stream] : streams_) {
      devices.insert(device);
    }
    if (!devices.empty()) {
      devices.erase(devices.begin());
    }
    return devices;
  }

  const std::set<ActivityType> wanted_;
  bool running_ = false;
  Clocks first_{}, last_{};
  std::vector<Activity> activities_;
  std::set<std::pair<int, int64_t>> streams_;
  std::unique_ptr<libkineto::CpuTraceBuffer> trace_;
  std::vector<std::string> errors_;
};

// --- The profiler ----------------------------------------------------------------------------------------------------

class Profiler final : public libkineto::IActivityProfiler {
 public:
  const std::string& name() const override { return kName; }

  const std::set<ActivityType>& availableActivities() const override {
    static const std::set<ActivityType> types{ActivityType::CONCURRENT_KERNEL, ActivityType::GPU_MEMCPY,
                                              ActivityType::GPU_USER_ANNOTATION, ActivityType::PRIVATEUSE1_RUNTIME};
    return types;
  }

  // No session for a profile of the CPU alone, which asks for calls of the runtime only.
  std::unique_ptr<libkineto::IActivityProfilerSession> configure(const std::set<ActivityType>& wanted,
                                                                 const libkineto::Config& /*config*/) override {
    const bool kernels = wanted.count(ActivityType::CONCURRENT_KERNEL) != 0;
    return kernels || wanted.count(ActivityType::GPU_MEMCPY) != 0 ? std::make_unique<Session>(wanted) : nullptr;
  }

  std::unique_ptr<libkineto::IActivityProfilerSession> configure(int64_t /*ts_ms*/, int64_t /*duration_ms*/,
                                                                 const std::set<ActivityType>& wanted,
                                                                 const libkineto::Config& config) override {
    return configure(wanted, config);
  }
};

[[maybe_unused]] const bool registered = [] {
  if constexpr (library::kIsTraced) {
    return false;  // else each kernel would be shown twice
  }
  const auto make = []() -> std::unique_ptr<libkineto::IActivityProfiler> { return std::make_unique<Profiler>(); };
#ifdef HAS_PROFILER_REGISTRY
  torch::profiler::impl::PrivateUse1ProfilerRegistry::instance().registerFactory(make);
#else
  libkineto::api().registerProfilerFactory(make);
#endif
  return true;
}();

}  // namespace
}  // namespace inductor_npu

#endif
