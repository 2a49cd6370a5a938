// The host threads that run a kernel's programs.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <vector>

namespace inductor_npu {

// A range of programs, worked off in chunks by whoever has time.
class ProgramJob {
 public:
  ProgramJob(int64_t programs, int64_t chunk) : programs_(programs), chunk_(chunk) {}
  virtual ~ProgramJob() = default;
  ProgramJob(const ProgramJob&) = delete;
  ProgramJob& operator=(const ProgramJob&) = delete;

  // Works off chunks on this thread until none is left. Raises only before it has taken one.
  virtual void participate() = 0;

 protected:
  // The next chunk; false when there is none.
  bool take(int64_t& begin, int64_t& end) noexcept {
    begin = next_.fetch_add(chunk_, std::memory_order_relaxed);
    end = begin + chunk_ < programs_ ? begin + chunk_ : programs_;
    return begin < programs_;
  }
  void cancel() noexcept { next_.store(programs_, std::memory_order_relaxed); }

 private:
  friend class ProgramPool;
  bool exhausted() const noexcept { return next_.load(std::memory_order_relaxed) >= programs_; }

  const int64_t programs_;
  const int64_t chunk_;
  int wanted_helpers_ = 0;  // guarded by the pool's mutex
  alignas(64) std::atomic<int64_t> next_{0};
  alignas(64) std::atomic<int> helpers_{0};
};

class ProgramPool {
 public:
  static ProgramPool& instance();

  // Runs `job` on the calling thread and up to `threads` - 1 helpers; returns when all its programs are done.
  void run(ProgramJob& job, int threads);

 private:
  void help();
  void start_helpers(int wanted);
  ProgramJob* join_a_job();

  std::mutex mutex_;
  std::condition_variable job_there_;
  std::condition_variable job_left_;
  std::vector<ProgramJob*> jobs_;
  int helper_count_ = 0;
  int sleepers_ = 0;
  std::atomic<uint64_t> published_{0};
};

}  // namespace inductor_npu
