// The worker thread of a stream, and those who wait for it.
#include "work_queue.h"

#include <c10/util/Exception.h>

#include <optional>
#include <utility>

#include "host_calls.h"
#include "host_thread.h"
#include "library.h"
#include "observer.h"
#include "recording.h"
#include "spin.h"
#include "timeline.h"
#include "waits.h"

namespace inductor_npu {
namespace {

// Long enough to catch the next launch of a program that launches without pause, short enough not to steal a core from
// it.
constexpr int64_t kWorkerSpinNs = 40'000;
constexpr int64_t kWaiterSpinNs = 20'000;

// The queue that this thread is working off.
thread_local const WorkQueue* own_queue = nullptr;

}  // namespace

std::string describe_current_exception() {
  try {
    throw;
  } catch (const c10::Error& error) {
    return error.what_without_backtrace();
  } catch (const std::exception& error) {
    return error.what();
  } catch (...) {
    return "an exception of unknown type";
  }
}

int driver::stream_worked_off() noexcept {
  return own_queue != nullptr ? own_queue->id : -1;
}

WorkQueue::Ticket WorkQueue::push(std::unique_ptr<Work> work) {
  if (C10_UNLIKELY(own_queue == this)) {
    work->run();  // what work queues is part of it
    return last();
  }
  std::optional<timeline::QueueingCall> call;
  if (C10_LIKELY(!work->is_hidden())) {
    call.emplace(*work);
  }
  bool wake = false;
  Ticket ticket = 0;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    if (C10_UNLIKELY(recording_ != nullptr)) {
      recording_->append(this, std::move(work));
      return submitted_.load(std::memory_order_relaxed);
    }
    if (!started_) {
      start_host_thread("npu" + std::to_string(device) + ":" + std::to_string(id), [this] { work_off(); });
      started_ = true;
    }
    Work* item = work.release();
    (tail_ != nullptr ? tail_->next : head_) = item;
    tail_ = item;
    ticket = submitted_.load(std::memory_order_relaxed) + 1;
    submitted_.store(ticket, std::memory_order_release);
    wake = asleep_ && !running_;
  }
  if (wake) {
    work_there_.notify_one();
  }
  return ticket;
}

void WorkQueue::work_off() {
  own_queue = this;
  std::unique_lock<std::mutex> lock(mutex_);
  for (;;) {
    while (Work* item = running_ ? nullptr : pop()) {
      running_ = true;
      lock.unlock();
      finish(item);
      lock.lock();
      running_ = false;
    }
    lock.unlock();
    spin_until([&] { return !passed(last()); }, kWorkerSpinNs);
    lock.lock();
    asleep_ = true;
    work_there_.wait(lock, [&] { return head_ != nullptr && !running_; });
    asleep_ = false;
  }
}

// Works the queue off up to `ticket` on the calling thread, unless somebody else is at it.
void WorkQueue::lend_a_hand(Ticket ticket) {
  // An operator that waits may have its allocations go to npu. Those of the work are not its own: npu's memory is freed
  // in the order of the stream, and kernels behind this work may still read what has been freed.
  const library::AllocateOn memory_of_the_host(std::nullopt);
  bool wake = false;
  {
    std::unique_lock<std::mutex> lock(mutex_);
    if (running_) {
      return;
    }
    const WorkQueue* before = own_queue;
    own_queue = this;
    running_ = true;
    while (!passed(ticket) && head_ != nullptr) {
      Work* item = pop();
      lock.unlock();
      finish(item);
      lock.lock();
    }
    running_ = false;
    own_queue = before;
    wake = asleep_ && head_ != nullptr;
  }
  if (wake) {
    work_there_.notify_one();
  }
}

Work* WorkQueue::pop() {
  Work* item = head_;
  if (item != nullptr) {
    head_ = item->next;
    tail_ = head_ != nullptr ? tail_ : nullptr;
  }
  return item;
}

void WorkQueue::finish(Work* work) noexcept {
  run(*work);
  delete work;
  completed_.fetch_add(1, std::memory_order_seq_cst);
  if (waiters_.load(std::memory_order_seq_cst) > 0) {
    std::lock_guard<std::mutex> lock(progress_mutex_);
    progress_.notify_all();
  }
}

void WorkQueue::run(Work& work) noexcept {
  try {
    run_observed(work);
  } catch (...) {
    keep_error(work.name(), describe_current_exception());
  }
}

void WorkQueue::run_observed(Work& work) const {
  if (C10_LIKELY(!is_observed()) || work.is_hidden()) {
    work.run();
    return;
  }
  // Tells also of work that fails.
  struct Observation {
    const WorkQueue& queue;
    const Work& work;
    const int64_t begin = now_ns();
    ~Observation() {
      WorkRecord record{work.name(), queue.device, queue.id, begin, now_ns(), work.origin};
      work.describe(record);
      observe(record);
    }
  };
  const Observation observation{*this, work};
  work.run();
}

void WorkQueue::record_into(std::shared_ptr<Recording> recording) {
  std::lock_guard<std::mutex> lock(mutex_);
  recording_ = std::move(recording);
  capture_.store(recording_ != nullptr ? recording_->id : 0, std::memory_order_relaxed);
}

std::shared_ptr<Recording> WorkQueue::recording() const {
  std::lock_guard<std::mutex> lock(mutex_);
  return recording_;
}

void WorkQueue::keep_error(const char* name, const std::string& reason) {
  static std::atomic<uint64_t> failures{0};
  std::lock_guard<std::mutex> lock(progress_mutex_);
  keep({failures.fetch_add(1) + 1, std::string(name) + " failed on npu:" + std::to_string(device) + " (stream " +
                                       std::to_string(id) + "): " + reason});
}

void WorkQueue::keep(WorkFailure failure) {
  if (failure_.number != 0) {
    ++suppressed_errors_;
    return;
  }
  failure_ = std::move(failure);
  failed_at_ = completed_.load(std::memory_order_relaxed) + 1;
  failed_.store(true, std::memory_order_release);
}

void WorkQueue::inherit(const WorkFailure& failure) {
  std::lock_guard<std::mutex> lock(progress_mutex_);
  if (failure.number != 0 && inherited_.insert(failure.number).second) {
    keep(failure);
  }
}

WorkFailure WorkQueue::failure_up_to(Ticket ticket) const {
  if (C10_LIKELY(!failed_.load(std::memory_order_acquire))) {
    return {};
  }
  std::lock_guard<std::mutex> lock(progress_mutex_);
  return failed_at_ <= ticket ? failure_ : WorkFailure{};
}

void WorkQueue::wait(Ticket ticket) {
  if (passed(ticket) || own_queue == this) {
    return;
  }
  WaitScope scope;
  lend_a_hand(ticket);
  if (spin_until([&] { return passed(ticket); }, kWaiterSpinNs)) {
    return;
  }
  std::unique_lock<std::mutex> lock(progress_mutex_);
  waiters_.fetch_add(1, std::memory_order_seq_cst);
  progress_.wait(lock, [&] { return completed_.load(std::memory_order_seq_cst) >= ticket; });
  waiters_.fetch_sub(1, std::memory_order_seq_cst);
}

std::string WorkQueue::take_error() {
  if (!failed_.load(std::memory_order_acquire)) {
    return {};
  }
  std::lock_guard<std::mutex> lock(progress_mutex_);
  std::string message = std::exchange(failure_, {}).message;
  if (suppressed_errors_ > 0) {
    message += " (and " + std::to_string(suppressed_errors_) + " more failures queued behind it)";
  }
  suppressed_errors_ = 0;
  failed_.store(false, std::memory_order_release);
  return message;
}

}  // namespace inductor_npu
