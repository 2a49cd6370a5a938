// Registered kernels, and the work of one launch.
#include "launch_work.h"

#include <c10/util/Exception.h>

#include <cstdlib>
#include <cstring>
#include <mutex>
#include <new>
#include <stdexcept>

#include "host_threads.h"
#include "memory_check.h"
#include "program_pool.h"
#include "runtime.h"
#include "spin.h"

namespace inductor_npu {
namespace {

// Below this many elements the other threads' wake-up costs more than they save.
constexpr int64_t kSerialWork = 32 * 1024;
// Chunks a thread: enough to balance unequal programs, few enough that taking one costs nothing. Chunks of programs that
// work long are smaller: there are as few of them as cores, and the longest thread decides.
constexpr int64_t kChunksPerThread = 4;
constexpr int64_t kChunkWork = 256 * 1024;
constexpr size_t kScratchAlignment = 64;

// Scratch memory of one host thread, grown on demand and kept.
class Scratch {
 public:
  ~Scratch() { std::free(memory_); }
  uint8_t* at_least(size_t bytes) {
    if (bytes > size_) {
      const size_t rounded = (bytes + kScratchAlignment - 1) / kScratchAlignment * kScratchAlignment;
      std::free(memory_);
      size_ = 0;
      memory_ = static_cast<uint8_t*>(std::aligned_alloc(kScratchAlignment, rounded));
      if (memory_ == nullptr) {
        throw std::runtime_error("no host memory for " + std::to_string(rounded) + " bytes of scratch memory");
      }
      size_ = rounded;
    }
    return memory_;
  }

 private:
  uint8_t* memory_ = nullptr;
  size_t size_ = 0;
};

thread_local Scratch scratch;

// A launch in progress.
class LaunchJob final : public ProgramJob {
 public:
  LaunchJob(LaunchWork& launch, int64_t chunk) : ProgramJob(launch.counters_.programs, chunk), launch_(launch) {}

  void participate() override {
    uint8_t* memory = scratch.at_least(static_cast<size_t>(launch_.kernel_->scratch_bytes));
    KernelContext context{};
    int64_t begin = 0, end = 0;
    while (take(begin, end)) {
      const int32_t failed = call(begin, end, memory, &context);
      if (failed != 0) {
        cancel();
        keep_failure(failed, context.failed_program);
      }
    }
    add_counters(context);
  }

  int32_t failed_assert = 0;
  int64_t failed_program = 0;

 private:
  int32_t call(int64_t begin, int64_t end, uint8_t* memory, KernelContext* context) {
    if (memory_check::is_on()) {
      return memory_check::run(*launch_.kernel_, launch_.args(), begin, end, launch_.counters_.programs, launch_.grid_,
                               memory, context);
    }
    return launch_.kernel_->entry(launch_.args(), begin, end, launch_.grid_, memory, context);
  }

  void keep_failure(int32_t failed, int64_t program) {
    std::lock_guard<std::mutex> lock(mutex_);
    if (failed_assert == 0 || program < failed_program) {
      failed_assert = failed;
      failed_program = program;
    }
  }

  void add_counters(const KernelContext& context) {
    if ((context.bytes_read | context.bytes_written | context.vector_operations) == 0) {
      return;
    }
    std::lock_guard<std::mutex> lock(mutex_);
    launch_.counters_.bytes_read += context.bytes_read;
    launch_.counters_.bytes_written += context.bytes_written;
    launch_.counters_.vector_operations += context.vector_operations;
  }

  LaunchWork& launch_;
  std::mutex mutex_;
};

[[noreturn]] void raise_failed_assert(const HostKernel& kernel, const int32_t grid[3], int32_t failed, int64_t program) {
  const int64_t x = program % grid[0], y = program / grid[0] % grid[1], z = program / grid[0] / grid[1];
  const size_t index = static_cast<size_t>(failed) - 1;
  const std::string message = index < kernel.messages.size() ? kernel.messages[index] : "(no message)";
  throw std::runtime_error("device_assert in program (" + std::to_string(x) + ", " + std::to_string(y) + ", " +
                           std::to_string(z) + "): " + message);
}

}  // namespace

const HostKernel* register_kernel(std::string name, uint64_t entry, int64_t scratch_bytes, int64_t work_per_program,
                              std::vector<std::string> messages) {
  if (entry == 0 || scratch_bytes < 0 || work_per_program < 0) {
    throw std::invalid_argument("register_kernel(" + name + "): the entry must not be null, the sizes not negative");
  }
  return new HostKernel(std::move(name), reinterpret_cast<KernelEntry>(entry), scratch_bytes, work_per_program,
                        std::move(messages));
}

std::unique_ptr<LaunchWork> LaunchWork::make(const Launch& launch) {
  void* memory = ::operator new(sizeof(LaunchWork) + launch.arg_count * sizeof(uint64_t));
  std::unique_ptr<LaunchWork> work(new (memory) LaunchWork());
  work->kernel_ = &of_host(*launch.kernel);
  std::memcpy(work->grid_, launch.grid, sizeof(work->grid_));
  work->threads_ = host_threads();
  work->counters_.programs = launch.programs;
  if (launch.arg_count > 0) {
    std::memcpy(work->args(), launch.args, launch.arg_count * sizeof(uint64_t));
  }
  return work;
}

void LaunchWork::describe(WorkRecord& record) const noexcept {
  record.kind = WorkKind::Kernel;
  std::copy(std::begin(grid_), std::end(grid_), record.grid.begin());
  record.programs = counters_.programs;
  record.bytes_read = counters_.bytes_read;
  record.bytes_written = counters_.bytes_written;
  record.vector_operations = counters_.vector_operations;
}

void LaunchWork::run() {
  const int64_t programs = counters_.programs;
  counters_ = {programs, 0, 0, 0};  // a captured launch runs again
  const bool serial = threads_ <= 1 || programs == 1 || programs * kernel_->work_per_program < kSerialWork ||
                      memory_check::is_on();
  const int threads = serial ? 1 : static_cast<int>(std::min<int64_t>(threads_, programs));
  const int64_t chunks = serial ? 1 : threads * kChunksPerThread;
  const int64_t chunk = std::max<int64_t>(1, (programs + chunks - 1) / chunks);
  const int64_t enough = serial ? chunk : std::max<int64_t>(1, kChunkWork / kernel_->work_per_program);
  LaunchJob job(*this, std::min(chunk, enough));
  const int64_t begin = now_ns();
  ProgramPool::instance().run(job, threads);
  kernel_->last_ns.store(now_ns() - begin, std::memory_order_relaxed);
  if (job.failed_assert != 0) {
    raise_failed_assert(*kernel_, grid_, job.failed_assert, job.failed_program);
  }
}

}  // namespace inductor_npu
