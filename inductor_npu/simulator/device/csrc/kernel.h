// The kernel ABI (docs/architecture.md, section 4) and what is known of a compiled kernel.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace inductor_npu {

struct KernelContext {
  int64_t failed_program;
  int64_t bytes_read, bytes_written, vector_operations;
};

// Runs programs [begin, end) of the flattened grid, x fastest. Returns 0, or the 1-based number of the device_assert
// that failed.
using KernelEntry = int32_t (*)(const uint64_t* args, int64_t begin, int64_t end, const int32_t grid[3],
                                uint8_t* scratch, KernelContext* context);

// A registered kernel; lives until the process ends, because launches may be queued anywhere.
struct Kernel {
  uint64_t magic;  // tells a function handle from any other integer
  std::string name;
  KernelEntry entry;
  int64_t scratch_bytes;
  int64_t work_per_program;           // elements touched by one program, about; 0: it runs on one thread
  std::vector<std::string> messages;  // of its device_asserts
  mutable std::atomic<int64_t> last_ns{0};  // how long its last launch took; 0: there was none
};

const Kernel* register_kernel(std::string name, uint64_t entry, int64_t scratch_bytes, int64_t work_per_program,
                              std::vector<std::string> messages);
// The kernel with this handle; null if it is none.
const Kernel* kernel_from_handle(uint64_t handle) noexcept;

// One launch, as the caller describes it; the driver copies what it needs.
struct Launch {
  const Kernel* kernel;
  int32_t grid[3];
  int64_t programs;  // product of the grid, positive
  const uint64_t* args;
  size_t arg_count;
  int threads;  // at most so many host threads
};

// Sets the grid of `launch`, whose kernel is set. False if it is empty; throws c10::Error where an axis is negative or
// there are more programs than the target takes.
bool set_grid(Launch& launch, const int64_t (&extents)[3]);

}  // namespace inductor_npu
