// Whether somebody watches the queued work; see runtime.h.
#pragma once

#include <atomic>

#include "runtime.h"

namespace inductor_npu {

extern std::atomic<int> observer_count;

inline bool is_observed() noexcept {
  return observer_count.load(std::memory_order_relaxed) != 0;
}

void observe(const WorkRecord& record) noexcept;

}  // namespace inductor_npu
