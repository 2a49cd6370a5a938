// A stream of the host driver: an in-order queue and the thread that works it off. A thread that waits for the queue
// lends a hand: it runs what is pending itself instead of handing over and back.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_set>

#include "runtime.h"

namespace inductor_npu {

class Recording;

// What a kernel's record variant counts; see WorkRecord.
struct WorkCounters {
  int64_t programs = 0;
  int64_t bytes_read = 0, bytes_written = 0, vector_operations = 0;
};

// One piece of queued work: an element of an intrusive list.
struct Work {
  virtual ~Work() = default;
  virtual void run() = 0;
  virtual const char* name() const noexcept = 0;
  // Whether nobody is told of it: the program did not ask for it.
  virtual bool is_hidden() const noexcept { return false; }
  // Fills in what it knows of itself, for an observer.
  virtual void describe(WorkRecord& /*record*/) const noexcept {}

  Work* next = nullptr;
  WorkOrigin origin;  // only while somebody observes
};

// What the exception that is being handled says.
std::string describe_current_exception();

// A failure of queued work that nobody has taken yet.
struct WorkFailure {
  uint64_t number = 0;  // counts the failures of this process; 0: there is none
  std::string message;
};

class WorkQueue {
 public:
  // Work is numbered from 1; a ticket is the number of the last piece that somebody waits for.
  using Ticket = uint64_t;

  WorkQueue(int device, int id, int priority) : device(device), id(id), priority(priority) {}
  WorkQueue(const WorkQueue&) = delete;
  WorkQueue& operator=(const WorkQueue&) = delete;

  // While the queue captures a graph, the work is recorded instead, and the ticket is that of what was queued before.
  // On a thread that runs work of this queue it is done at once, and raises what it raises.
  Ticket push(std::unique_ptr<Work> work);

  Ticket last() const noexcept { return submitted_.load(std::memory_order_acquire); }
  bool passed(Ticket ticket) const noexcept { return completed_.load(std::memory_order_acquire) >= ticket; }
  // Returns at once on the queue's own thread: what was queued before the work that asks is done.
  void wait(Ticket ticket);

  // The first failure since the last call; empty if none.
  std::string take_error();
  // The same of work up to `ticket`, which is done; it stays.
  WorkFailure failure_up_to(Ticket ticket) const;
  // What this queue waited for has failed: its own work goes on with wrong values, hence the failure is its own, too.
  // Each failure counts once.
  void inherit(const WorkFailure& failure);

  // From here on until it is called with null, work is recorded. Queues of one capture share a recording.
  void record_into(std::shared_ptr<Recording> recording);
  std::shared_ptr<Recording> recording() const;
  // The id of the capture; 0 when there is none. Cheap.
  uint64_t capture() const noexcept { return capture_.load(std::memory_order_relaxed); }

  // Runs a piece of work of this queue on the calling thread, and tells whoever observes. Raises what it raises.
  void run_observed(Work& work) const;

  const int device;
  const int id;
  const int priority;

 private:
  void work_off();
  void lend_a_hand(Ticket ticket);
  Work* pop();
  void finish(Work* work) noexcept;
  void run(Work& work) noexcept;
  void keep_error(const char* name, const std::string& reason);
  void keep(WorkFailure failure);

  mutable std::mutex mutex_;
  std::shared_ptr<Recording> recording_;
  std::atomic<uint64_t> capture_{0};
  std::condition_variable work_there_;
  Work* head_ = nullptr;
  Work* tail_ = nullptr;
  bool started_ = false;
  bool asleep_ = false;   // the worker waits for work_there_
  bool running_ = false;  // somebody, the worker or a helper, is working the queue off
  std::atomic<Ticket> submitted_{0};

  // Written by whoever works the queue off; on a cache line of its own.
  alignas(64) std::atomic<Ticket> completed_{0};
  std::atomic<int> waiters_{0};
  std::atomic<bool> failed_{false};
  mutable std::mutex progress_mutex_;
  std::condition_variable progress_;
  WorkFailure failure_;
  Ticket failed_at_ = 0;
  int suppressed_errors_ = 0;
  std::unordered_set<uint64_t> inherited_;
};

}  // namespace inductor_npu
