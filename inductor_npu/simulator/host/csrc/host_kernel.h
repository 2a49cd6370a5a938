// The kernel ABI of the host (docs/architecture.md, section 4) and what is known of a kernel compiled for it.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "kernel.h"

namespace inductor_npu {

struct KernelContext {
  int64_t failed_program;
  int64_t bytes_read, bytes_written, vector_operations;
};

// Runs programs [begin, end) of the flattened grid, x fastest. Returns 0, or the 1-based number of the device_assert
// that failed.
using KernelEntry = int32_t (*)(const uint64_t* args, int64_t begin, int64_t end, const int32_t grid[3],
                                uint8_t* scratch, KernelContext* context);

struct HostKernel : Kernel {
  HostKernel(std::string name, KernelEntry entry, int64_t scratch_bytes, int64_t work_per_program,
             std::vector<std::string> messages)
      : Kernel(std::move(name)),
        entry(entry),
        scratch_bytes(scratch_bytes),
        work_per_program(work_per_program),
        messages(std::move(messages)) {}

  const KernelEntry entry;
  const int64_t scratch_bytes;
  const int64_t work_per_program;           // elements touched by one program, about; 0: it runs on one thread
  const std::vector<std::string> messages;  // of its device_asserts
  mutable std::atomic<int64_t> last_ns{0};  // how long its last launch took; 0: there was none
};

const HostKernel* register_kernel(std::string name, uint64_t entry, int64_t scratch_bytes, int64_t work_per_program,
                                  std::vector<std::string> messages);

// All kernels of this runtime are the host's.
inline const HostKernel& of_host(const Kernel& kernel) {
  return static_cast<const HostKernel&>(kernel);
}

}  // namespace inductor_npu
