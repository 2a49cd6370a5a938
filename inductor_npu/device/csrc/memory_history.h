// What the allocator did, when, and from where: the history behind torch.npu.memory._snapshot.
//
// Off, it costs an allocation one relaxed load. Nothing here locks but CallStack: whoever calls holds the allocator's
// lock.
#pragma once

#include <c10/core/Allocator.h>
#include <c10/core/CachingDeviceAllocator.h>

#include <array>
#include <atomic>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "runtime.h"

namespace inductor_npu {

using Stack = std::shared_ptr<c10::GatheredContext>;  // a torch::CapturedTraceback, or null

enum class MemoryAction : uint8_t {
  Alloc,
  FreeRequested,
  FreeCompleted,
  SegmentAlloc,
  SegmentFree,
  OutOfMemory,
  Snapshot,
};
constexpr std::array<const char*, 7> kMemoryActions{"alloc",        "free_requested", "free_completed", "segment_alloc",
                                                    "segment_free", "oom",            "snapshot"};

struct MemoryEvent {
  MemoryAction action;
  uintptr_t address;  // of OutOfMemory: the bytes that were free
  size_t size;
  c10::StreamId stream;
  c10::MempoolId_t pool;
  int64_t time_us;  // since 1970
  Stack stack;
};

// Whose stacks are kept: each includes those before.
enum class StacksOf : uint8_t { Nothing, Blocks, Allocations, Everything };

struct HistorySettings {
  bool on = false;
  bool events = false;  // else only the stacks of what is allocated now
  StacksOf stacks = StacksOf::Nothing;
  bool cpp_frames = false;
  size_t max_events = std::numeric_limits<size_t>::max();  // of a device; later ones replace the earliest
  uint32_t skipped = 0;                                    // a bit for each MemoryAction
};

// The stack of this call, for what is recorded during it on this thread. Made before the allocator's lock is taken:
// Python's lock is needed for it.
class CallStack {
 public:
  explicit CallStack(StacksOf use);
  ~CallStack();
  CallStack(const CallStack&) = delete;
  CallStack& operator=(const CallStack&) = delete;
  static const Stack& current();

 private:
  bool gathered_ = false;
};

class MemoryHistory {
 public:
  // Keeps nothing that was recorded before if `settings` are off, or with `clear`.
  void set(const HistorySettings& settings, bool clear);
  const HistorySettings& settings() const { return settings_; }

  void add(c10::DeviceIndex device, MemoryAction action, const void* address, size_t size, c10::StreamId stream,
           c10::MempoolId_t pool, const Stack& stack = CallStack::current());
  // From the earliest on.
  std::vector<MemoryEvent> events(c10::DeviceIndex device) const;

 private:
  struct Ring {
    std::vector<MemoryEvent> events;
    size_t oldest = 0;
  };
  HistorySettings settings_;
  std::array<Ring, kMaxDevices> rings_;
};

// Of the one history there is: the settings, for whoever does not hold the allocator's lock.
extern std::atomic<StacksOf> gathered_stacks;
extern std::atomic<bool> gathers_cpp_frames;

}  // namespace inductor_npu
