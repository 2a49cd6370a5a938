#include "host_threads.h"

#include <ATen/Parallel.h>
#include <c10/util/Exception.h>

#include <algorithm>
#include <atomic>

#include "runtime.h"

namespace inductor_npu {
namespace {

std::atomic<int> asked{0};

}  // namespace

void ask_for_host_threads(int count) {
  TORCH_CHECK(count >= 0, "INDUCTOR_NPU_SIM_THREADS must not be negative, got ", count);
  asked.store(count);
}

int host_threads() {
  const int count = asked.load(std::memory_order_relaxed);
  return std::min(count > 0 ? count : at::get_num_threads(), configuration().vector_cores);
}

}  // namespace inductor_npu
