// The time line of npu, for a profiler: what ran on each stream, and which call of which operator on the host asked for
// it. Costs one relaxed load where something would be noted while nobody records.
#pragma once

#include <c10/macros/Macros.h>

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "observer.h"

namespace inductor_npu::timeline {

enum class Kind {
  Kernel,      // on a stream: a launch of a compiled kernel
  Operator,    // on a stream: an operator of the library, which the calling thread runs in the device's place
  Collective,  // on a stream: with other processes
  Copy,        // on a stream
  Wait,        // on a stream: for an event of another stream
  Call,        // on a thread of the host: a call of the runtime that queues work or waits
};

// Times are std::chrono::steady_clock, in nanoseconds.
struct Activity {
  Kind kind;
  std::string name;
  int64_t begin_ns, end_ns;
  WorkOrigin origin;
  int device = 0;
  int64_t row = 0;      // the stream; of a Call the thread, as the system numbers it
  bool queued = false;  // work that went through a queue, or the Call that queued it
  std::array<int32_t, 3> grid{};
  int64_t bytes = 0;                                                 // of a Copy
  int64_t bytes_read = 0, bytes_written = 0, vector_operations = 0;  // of a Kernel that counts
};

// --- Recording -------------------------------------------------------------------------------------------------------

// Raises if the time line is being recorded already.
void start();
// Waits for what is queued, ends the recording and returns it, in no order.
std::vector<Activity> stop();

extern std::atomic<bool> recording;
inline bool is_recording() noexcept {
  return recording.load(std::memory_order_relaxed);
}

// The profiler numbers operators and named ranges (record_function): this thread enters one, or leaves the innermost.
void enter_operator(uint64_t number);
void enter_range(uint64_t number);
void leave() noexcept;

// --- What the runtime notes ------------------------------------------------------------------------------------------

// A call of the runtime on the calling thread, while the object lives; null: none.
class Call {
 public:
  explicit Call(const char* name) {
    if (C10_UNLIKELY(is_recording()) && name != nullptr) {
      begin(name);
    }
  }
  ~Call() {
    if (C10_UNLIKELY(name_ != nullptr)) {
      end();
    }
  }
  Call(const Call&) = delete;
  Call& operator=(const Call&) = delete;

 protected:
  Call() = default;
  void begin(const char* name);
  void end() noexcept;

  const char* name_ = nullptr;
  bool queues_ = false;
  WorkOrigin origin_;
};

// The call that queues `work`; tells the work where it comes from.
class QueueingCall : Call {
 public:
  template <class Work>
  explicit QueueingCall(Work& work) {
    if (C10_UNLIKELY(is_observed())) {
      WorkRecord facts{};
      work.describe(facts);
      begin(facts, work.origin);
    }
  }

 private:
  void begin(const WorkRecord& facts, WorkOrigin& origin);
};

// While it lives, what the calling thread does is a part of the queued work that it runs.
class WithinWork {
 public:
  WithinWork() noexcept;
  ~WithinWork();
  WithinWork(const WithinWork&) = delete;
  WithinWork& operator=(const WithinWork&) = delete;

 private:
  const bool before_;
};

// Work of the device that the calling thread does itself, shown on `device`'s current stream, while the object lives.
// Such work inside such work is a part of it.
class HostWork {
 public:
  // An operator of the library; null: none.
  HostWork(const char* name, int device) {
    if (C10_UNLIKELY(is_recording()) && name != nullptr) {
      begin(Kind::Operator, name, device);
    }
  }
  HostWork(const void* destination, const void* source, size_t bytes, int device) {
    if (C10_UNLIKELY(is_recording())) {
      begin_copy(destination, source, bytes, device);
    }
  }
  ~HostWork() {
    if (C10_UNLIKELY(noted_)) {
      end();
    }
  }
  HostWork(const HostWork&) = delete;
  HostWork& operator=(const HostWork&) = delete;

 private:
  void begin(Kind kind, const char* name, int device);
  void begin_copy(const void* destination, const void* source, size_t bytes, int device);
  void end() noexcept;

  bool noted_ = false;
  Activity activity_{};
};

}  // namespace inductor_npu::timeline
