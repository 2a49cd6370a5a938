// The worker thread of a stream, and those who wait for it.
#include "work_queue.h"

#include <pthread.h>
#include <signal.h>

#include <c10/util/Exception.h>

#include <thread>

#include "driver.h"
#include "observer.h"
#include "spin.h"

namespace inductor_npu {
namespace {

// Long enough to catch the next launch of a program that launches without pause, short enough not to steal a core from it.
constexpr int64_t kWorkerSpinNs = 40'000;
constexpr int64_t kWaiterSpinNs = 20'000;

thread_local const WorkQueue* own_queue = nullptr;

std::atomic<void* (*)()> wait_enter{nullptr};
std::atomic<void (*)(void*)> wait_leave{nullptr};

// Gives up Python's lock, where this thread holds it, for the time of a wait.
class WaitScope {
 public:
  WaitScope() : state_(wait_enter.load() ? wait_enter.load()() : nullptr) {}
  ~WaitScope() {
    if (state_ != nullptr) {
      wait_leave.load()(state_);
    }
  }
  WaitScope(const WaitScope&) = delete;
  WaitScope& operator=(const WaitScope&) = delete;

 private:
  void* state_;
};

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

}  // namespace

void driver::set_wait_hooks(WaitHooks hooks) noexcept {
  wait_leave.store(hooks.leave);
  wait_enter.store(hooks.enter);
}

WorkQueue::Ticket WorkQueue::push(std::unique_ptr<Work> work) {
  if (is_observed()) {
    work->queued_ns = now_ns();
  }
  bool wake = false;
  Ticket ticket = 0;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    if (!started_) {
      start_worker();
      started_ = true;
    }
    Work* item = work.release();
    (tail_ != nullptr ? tail_->next : head_) = item;
    tail_ = item;
    ticket = submitted_.load(std::memory_order_relaxed) + 1;
    submitted_.store(ticket, std::memory_order_release);
    wake = asleep_;
    asleep_ = false;
  }
  if (wake) {
    work_there_.notify_one();
  }
  return ticket;
}

void WorkQueue::start_worker() {
  // Signals belong to the threads of the program.
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  std::thread worker([this] { this->work(); });
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  const std::string name = "npu" + std::to_string(device) + ":" + std::to_string(id);
  pthread_setname_np(worker.native_handle(), name.c_str());
  worker.detach();
}

void WorkQueue::work() {
  own_queue = this;
  for (;;) {
    Work* item = take_all();
    while (item != nullptr) {
      Work* next = item->next;
      run_one(*item);
      delete item;
      completed_.fetch_add(1, std::memory_order_seq_cst);
      if (waiters_.load(std::memory_order_seq_cst) > 0) {
        std::lock_guard<std::mutex> lock(progress_mutex_);
        progress_.notify_all();
      }
      item = next;
    }
  }
}

Work* WorkQueue::take_all() {
  // Only this thread completes work: what is submitted and not completed is in the list.
  const Ticket completed = completed_.load(std::memory_order_relaxed);
  spin_until([&] { return submitted_.load(std::memory_order_acquire) != completed; }, kWorkerSpinNs);
  std::unique_lock<std::mutex> lock(mutex_);
  while (head_ == nullptr) {
    asleep_ = true;
    work_there_.wait(lock);
  }
  asleep_ = false;
  Work* first = head_;
  head_ = tail_ = nullptr;
  return first;
}

void WorkQueue::run_one(Work& work) noexcept {
  const bool observed = is_observed();
  const int64_t begin = observed ? now_ns() : 0;
  try {
    work.run();
  } catch (...) {
    keep_error(work.name(), describe_current_exception());
  }
  if (observed) {
    const WorkCounters none;
    const WorkCounters& counters = work.counters() != nullptr ? *work.counters() : none;
    observe({work.name(), device, id, work.queued_ns, begin, now_ns(), counters.programs, counters.bytes_read,
             counters.bytes_written, counters.vector_operations});
  }
}

void WorkQueue::keep_error(const char* name, const std::string& reason) {
  std::lock_guard<std::mutex> lock(progress_mutex_);
  if (!error_.empty()) {
    ++suppressed_errors_;
    return;
  }
  error_ = std::string(name) + " failed on npu:" + std::to_string(device) + " (stream " + std::to_string(id) + "): " + reason;
  failed_.store(true, std::memory_order_release);
}

void WorkQueue::wait(Ticket ticket) {
  if (passed(ticket) || own_queue == this) {
    return;
  }
  WaitScope scope;
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
  std::string message = std::move(error_);
  error_.clear();
  if (suppressed_errors_ > 0) {
    message += " (and " + std::to_string(suppressed_errors_) + " more failures queued behind it)";
  }
  suppressed_errors_ = 0;
  failed_.store(false, std::memory_order_release);
  return message;
}

}  // namespace inductor_npu
