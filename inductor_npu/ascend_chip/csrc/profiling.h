// What CANN's profiler (msprof) hears of a launch, as Ascend's Triton reports it: without it, work of the device has no
// name in a time line. The structures are those of CANN's aprof_pub.h, which is not on every machine.
#pragma once

#include <sys/syscall.h>
#include <unistd.h>

#include <cstdint>
#include <cstring>
#include <string>
#include <type_traits>

namespace profiling {

enum TaskType : uint32_t { kCube = 0, kVector = 2, kMixedCube = 4, kMixedVector = 5 };  // MSPROF_GE_TASK_TYPE_...

constexpr uint16_t kMagic = 0x5a5a, kNodeLevel = 10000;
constexpr uint32_t kBasicInfo = 0, kContextIds = 4, kNodeLaunch = 5;
constexpr uint64_t kTaskTime = 0x800, kTaskTimeAndShapes = 0x2;
constexpr uint32_t kModule = 8;  // CCE, the one of compiled kernels
constexpr uint32_t kSwitch = 1, kStart = 1, kLastCommand = 6;

struct Api {
  uint16_t magic = kMagic, level = kNodeLevel;
  uint32_t type = kNodeLaunch, thread = 0, reserved = 0;
  uint64_t begin = 0, end = 0, item = 0;
};

#pragma pack(1)
struct BasicInfo {
  uint64_t name;
  uint32_t task_type;
  uint64_t type;
  uint32_t blocks, flag;
};
struct ContextIds {
  uint64_t name;
  uint32_t count, ids[55];
};
#pragma pack()

template <size_t bytes>
struct Info {
  uint16_t magic = kMagic, level = kNodeLevel;
  uint32_t type = 0, thread = 0, length = 0;
  uint64_t time = 0;
  uint8_t data[bytes] = {};
};
using CompactInfo = Info<40>;
using AdditionalInfo = Info<232>;

struct Command {
  uint64_t switches, more_switches;
  uint32_t devices, device[64], model, type;
};

struct Functions {
  uint64_t (*time)() = nullptr;
  uint64_t (*hash)(const char* text, size_t length) = nullptr;
  int32_t (*report_api)(uint32_t aging, const Api* api) = nullptr;
  int32_t (*report_compact)(uint32_t aging, const void* info, uint32_t bytes) = nullptr;
  int32_t (*report_additional)(uint32_t aging, const void* info, uint32_t bytes) = nullptr;
};
inline Functions functions;
inline bool reports_time = false, reports_tasks = false;

// Called by the profiler as it is started and stopped.
inline int32_t on_command(uint32_t type, void* data, uint32_t length) {
  if (!data || !length) return 1;
  auto* command = static_cast<Command*>(data);
  if (type != kSwitch) return 0;
  if (command->type >= kLastCommand) return 1;
  if (command->type == kStart) {
    reports_time = (command->switches & kTaskTime) != 0;
    reports_tasks = (command->switches & kTaskTimeAndShapes) != 0;
  }
  return 0;
}

// Finds CANN's functions; where one is missing, nothing is reported.
inline void install(void* (*function)(const char* name)) {
  auto find = [&](auto& target, const char* name) {
    target = reinterpret_cast<std::remove_reference_t<decltype(target)>>(function(name));
    return target != nullptr;
  };
  int32_t (*subscribe)(uint32_t, int32_t (*)(uint32_t, void*, uint32_t)) = nullptr;
  bool all = find(functions.time, "MsprofSysCycleTime") && find(functions.hash, "MsprofGetHashId") &&
             find(functions.report_api, "MsprofReportApi") &&
             find(functions.report_compact, "MsprofReportCompactInfo") &&
             find(functions.report_additional, "MsprofReportAdditionalInfo") &&
             find(subscribe, "MsprofRegisterCallback");
  if (all) subscribe(kModule, on_command);
}

struct Report {
  std::string name;
  TaskType task_type;
  unsigned mix_ratio;
};

// One launch, from when this is made to its end.
class Launch {
 public:
  Launch(const Report& report, uint32_t blocks) : report_(report), blocks_((report.mix_ratio << 16) + blocks) {
    if (reports_time || reports_tasks) begin_ = functions.time();
  }
  ~Launch() {
    if (!begin_) return;
    uint64_t end = functions.time(), name = functions.hash(report_.name.c_str(), report_.name.size());
    auto thread = static_cast<uint32_t>(syscall(SYS_gettid));
    Api api;
    api.thread = thread, api.begin = begin_, api.end = end, api.item = name;
    functions.report_api(0, &api);
    if (!reports_tasks) return;
    CompactInfo task;
    BasicInfo basic{name, report_.task_type, name, blocks_, 0};
    task.type = kBasicInfo, task.thread = thread, task.time = end;
    std::memcpy(task.data, &basic, sizeof basic);
    functions.report_compact(0, &task, sizeof task);
    if (report_.task_type < kMixedCube) return;
    AdditionalInfo contexts;
    ContextIds ids{name, 1, {0}};
    contexts.type = kContextIds, contexts.thread = thread, contexts.time = end;
    std::memcpy(contexts.data, &ids, sizeof ids);
    functions.report_additional(0, &contexts, sizeof contexts);
  }

 private:
  const Report& report_;
  uint32_t blocks_;
  uint64_t begin_ = 0;
};

}  // namespace profiling
