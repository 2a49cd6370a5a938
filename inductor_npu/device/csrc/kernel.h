// Compiled kernels and their launches, as far as every runtime knows of them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>

namespace inductor_npu {

// A kernel that can be launched; lives until the process ends, because launches may be queued anywhere. A runtime adds
// what it needs.
struct Kernel {
  explicit Kernel(std::string name) : name(std::move(name)) {}

  static constexpr uint64_t kMagic = 0x4e50554b45524e4cULL;
  const uint64_t magic = kMagic;  // tells a function handle from any other integer
  const std::string name;
};

// The kernel with this handle, its address; null if it is none.
const Kernel* kernel_from_handle(uint64_t handle) noexcept;

// One launch, as the caller describes it; the driver copies what it needs.
struct Launch {
  const Kernel* kernel;
  int32_t grid[3];
  int64_t programs;      // product of the grid, positive
  const uint64_t* args;  // a word of 64 bits each, in its low bytes
  size_t arg_count;
};

// Sets the grid of `launch`, whose kernel is set. False if it is empty; throws c10::Error where an axis is negative or
// there are more programs than the target takes.
bool set_grid(Launch& launch, const int64_t (&extents)[3]);

}  // namespace inductor_npu
