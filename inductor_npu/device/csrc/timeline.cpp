// Records the time line: notes of the streams' workers and of the threads that call the runtime, in one list.
#include "timeline.h"

#include <c10/util/Exception.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <mutex>
#include <utility>

#include "runtime.h"
#include "spin.h"

namespace inductor_npu::timeline {
namespace {

// Above the numbers that profilers give to operators, which count from 1: PyTorch looks up both in one table.
constexpr uint32_t kFirstFlow = uint32_t{1} << 30;

std::mutex noting;
int64_t started_ns = 0;
std::vector<Activity>& activities() {
  static auto* instance = new std::vector<Activity>();  // never destroyed: workers may outlive static objects
  return *instance;
}

void note(Activity&& activity) {
  std::lock_guard<std::mutex> lock(noting);
  if (is_recording() && activity.begin_ns >= started_ns) {
    activities().push_back(std::move(activity));
  }
}

// --- Where a thread is -----------------------------------------------------------------------------------------------

struct Place {
  uint64_t inner, range;  // the innermost operator or range, and the innermost range
};

std::atomic<uint32_t> recordings{0};

// The operators and ranges that this thread is in. Those of an earlier recording, which may have ended inside of them,
// are forgotten.
std::vector<Place>& places() {
  thread_local std::pair<uint32_t, std::vector<Place>> mine;
  const uint32_t now = recordings.load(std::memory_order_relaxed);
  if (mine.first != now) {
    mine.first = now;
    mine.second.clear();
  }
  return mine.second;
}

WorkOrigin origin_here() {
  static std::atomic<uint32_t> calls{0};
  const std::vector<Place>& within = places();
  const Place place = within.empty() ? Place{} : within.back();
  return {now_ns(), kFirstFlow | (calls.fetch_add(1, std::memory_order_relaxed) & (kFirstFlow - 1)), place.inner,
          place.range};
}

int64_t thread_number() {
  thread_local const int64_t number = syscall(SYS_gettid);
  return number;
}

// --- Streams ---------------------------------------------------------------------------------------------------------

enum class Side { Pageable, Pinned, Device };

Side side_of(const void* pointer) {
  return is_npu_pointer(pointer) ? Side::Device : is_pinned_pointer(pointer) ? Side::Pinned : Side::Pageable;
}

// In the words that tools know from other devices' traces.
const char* copy_name(const void* destination, const void* source) {
  const Side to = side_of(destination), from = side_of(source);
  if (to == Side::Device) {
    return from == Side::Device   ? "Memcpy DtoD (Device -> Device)"
           : from == Side::Pinned ? "Memcpy HtoD (Pinned -> Device)"
                                  : "Memcpy HtoD (Pageable -> Device)";
  }
  return to == Side::Pinned ? "Memcpy DtoH (Device -> Pinned)" : "Memcpy DtoH (Device -> Pageable)";
}

const char* queueing_call(WorkKind kind) {
  switch (kind) {
    case WorkKind::Kernel: return "npuLaunchKernel";
    case WorkKind::Copy: return "npuMemcpyAsync";
    case WorkKind::Wait: return "npuStreamWaitEvent";
    case WorkKind::Operator: return "npuQueueOperator";
    case WorkKind::Collective: return "npuQueueCollective";
    case WorkKind::Replay: return "npuGraphLaunch";
    case WorkKind::Mark: return "npuEventRecord";
  }
  return "npuQueueWork";
}

Kind activity_kind(WorkKind kind) {
  switch (kind) {
    case WorkKind::Kernel: return Kind::Kernel;
    case WorkKind::Copy: return Kind::Copy;
    case WorkKind::Operator: return Kind::Operator;
    case WorkKind::Collective: return Kind::Collective;
    default: return Kind::Wait;
  }
}

// The observer of queued work.
void note_work(const WorkRecord& work) {
  if (work.kind == WorkKind::Mark || work.kind == WorkKind::Replay) {
    return;  // a point in time; work that is noted by itself
  }
  Activity activity{};
  activity.kind = activity_kind(work.kind);
  activity.name = work.name;
  if (work.kind == WorkKind::Copy) {  // one of a captured graph was not named when it was queued
    activity.name = work.origin.copy != nullptr ? work.origin.copy : copy_name(work.destination, work.source);
  }
  activity.begin_ns = work.begin_ns;
  activity.end_ns = work.end_ns;
  activity.origin = work.origin;
  activity.device = work.device;
  activity.row = work.stream_id;
  activity.queued = true;
  activity.grid = work.grid;
  activity.bytes = work.copied_bytes;
  activity.bytes_read = work.bytes_read;
  activity.bytes_written = work.bytes_written;
  activity.vector_operations = work.vector_operations;
  note(std::move(activity));
}

thread_local bool in_host_work = false;

}  // namespace

WithinWork::WithinWork() noexcept : before_(std::exchange(in_host_work, true)) {}

WithinWork::~WithinWork() {
  in_host_work = before_;
}

std::atomic<bool> recording{false};

void start() {
  std::lock_guard<std::mutex> lock(noting);
  TORCH_CHECK(!is_recording(), "The time line of npu is recorded already: one profiler at a time can record it");
  add_work_observer(note_work);
  activities().clear();
  recordings.fetch_add(1);
  started_ns = now_ns();
  recording.store(true);
}

std::vector<Activity> stop() {
  if (is_open()) {
    for (c10::DeviceIndex device = 0; device < device_count(); ++device) {
      wait_for_all_streams(device);
    }
  }
  remove_work_observer(note_work);
  std::lock_guard<std::mutex> lock(noting);
  recording.store(false);
  return std::exchange(activities(), {});
}

void enter_operator(uint64_t number) {
  std::vector<Place>& within = places();
  within.push_back({number, within.empty() ? 0 : within.back().range});
}

void enter_range(uint64_t number) {
  places().push_back({number, number});
}

void leave() noexcept {
  std::vector<Place>& within = places();
  if (!within.empty()) {  // else it was entered before the recording
    within.pop_back();
  }
}

void Call::begin(const char* name) {
  name_ = name;
  origin_ = origin_here();
}

void Call::end() noexcept {
  Activity activity{};
  activity.kind = Kind::Call;
  activity.name = name_;
  activity.begin_ns = origin_.queued_ns;
  activity.end_ns = now_ns();
  activity.origin = origin_;
  activity.row = thread_number();
  activity.queued = queues_;
  note(std::move(activity));
}

void QueueingCall::begin(const WorkRecord& facts, WorkOrigin& origin) {
  if (!is_recording()) {
    origin.queued_ns = now_ns();
    return;
  }
  Call::begin(queueing_call(facts.kind));
  queues_ = facts.kind != WorkKind::Mark;
  if (facts.kind == WorkKind::Copy) {
    origin_.copy = copy_name(facts.destination, facts.source);
  }
  origin = origin_;
}

void HostWork::begin(Kind kind, const char* name, int device) {
  if (in_host_work) {
    return;
  }
  in_host_work = noted_ = true;
  const auto index = static_cast<c10::DeviceIndex>(device);
  activity_.kind = kind;
  activity_.name = name;
  activity_.device = device;
  activity_.row = current_stream(index).id();
  activity_.origin = origin_here();
  activity_.begin_ns = activity_.origin.queued_ns;
}

void HostWork::begin_copy(const void* destination, const void* source, size_t bytes, int device) {
  begin(Kind::Copy, copy_name(destination, source), device);
  activity_.bytes = static_cast<int64_t>(bytes);
}

void HostWork::end() noexcept {
  in_host_work = false;
  activity_.end_ns = now_ns();
  note(std::move(activity_));
}

}  // namespace inductor_npu::timeline
