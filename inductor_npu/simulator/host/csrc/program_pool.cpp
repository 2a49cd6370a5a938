// Helper threads: started when first wanted, shared by all streams, spinning shortly between jobs.
#include "program_pool.h"

#include <algorithm>
#include <exception>
#include <string>

#include "host_thread.h"
#include "spin.h"

namespace inductor_npu {
namespace {

constexpr int64_t kHelperSpinNs = 30'000;
constexpr int64_t kOwnerSpinNs = 50'000;

}  // namespace

ProgramPool& ProgramPool::instance() {
  static auto* pool = new ProgramPool();  // never destroyed: its threads live until the process ends
  return *pool;
}

void ProgramPool::run(ProgramJob& job, int threads) {
  const int helpers = threads - 1;
  if (helpers <= 0) {
    job.participate();
    return;
  }
  int to_wake = 0;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    start_helpers(helpers);
    job.wanted_helpers_ = helpers;
    jobs_.push_back(&job);
    published_.fetch_add(1, std::memory_order_release);
    to_wake = std::min(helpers, sleepers_);
  }
  for (; to_wake > 0; --to_wake) {
    job_there_.notify_one();
  }
  std::exception_ptr failure;
  try {
    job.participate();
  } catch (...) {
    failure = std::current_exception();
  }
  {
    std::unique_lock<std::mutex> lock(mutex_);
    jobs_.erase(std::find(jobs_.begin(), jobs_.end(), &job));
  }
  // Nobody joins any more; those who did are on their last chunk.
  const auto left = [&] { return job.helpers_.load(std::memory_order_acquire) == 0; };
  if (!spin_until(left, kOwnerSpinNs)) {
    std::unique_lock<std::mutex> lock(mutex_);
    job_left_.wait(lock, left);
  }
  if (failure) {
    std::rethrow_exception(failure);
  }
}

void ProgramPool::start_helpers(int wanted) {
  for (; helper_count_ < wanted; ++helper_count_) {
    start_host_thread("npu-core" + std::to_string(helper_count_ + 1), [this] { help(); });
  }
}

ProgramJob* ProgramPool::join_a_job() {
  for (ProgramJob* job : jobs_) {
    if (job->wanted_helpers_ > 0 && !job->exhausted()) {
      --job->wanted_helpers_;
      job->helpers_.fetch_add(1, std::memory_order_relaxed);
      return job;
    }
  }
  return nullptr;
}

void ProgramPool::help() {
  uint64_t seen = 0;
  for (;;) {
    spin_until([&] { return published_.load(std::memory_order_acquire) != seen; }, kHelperSpinNs);
    ProgramJob* job = nullptr;
    {
      std::unique_lock<std::mutex> lock(mutex_);
      seen = published_.load(std::memory_order_relaxed);
      while ((job = join_a_job()) == nullptr) {
        ++sleepers_;
        job_there_.wait(lock);
        --sleepers_;
        seen = published_.load(std::memory_order_relaxed);
      }
    }
    try {
      job->participate();
    } catch (...) {
      // It took no chunk: the others, at least the owner, do the work or raise the same failure.
    }
    if (job->helpers_.fetch_sub(1, std::memory_order_acq_rel) == 1) {
      std::lock_guard<std::mutex> lock(mutex_);  // so that an owner between its test and its sleep is not missed
      job_left_.notify_all();
    }
  }
}

}  // namespace inductor_npu
