// Who watches the queued work.
#include "observer.h"

#include <c10/util/Exception.h>

#include <array>
#include <mutex>

namespace inductor_npu {
namespace {

constexpr size_t kMaxObservers = 4;

std::array<std::atomic<WorkObserver>, kMaxObservers> observers{};
std::mutex changing;

// Puts `now` where `before` is. False if it is nowhere.
bool replace(WorkObserver before, WorkObserver now) {
  for (auto& slot : observers) {
    WorkObserver expected = before;
    if (slot.compare_exchange_strong(expected, now)) {
      return true;
    }
  }
  return false;
}

}  // namespace

std::atomic<int> observer_count{0};

void add_work_observer(WorkObserver observer) {
  std::lock_guard<std::mutex> lock(changing);
  TORCH_CHECK(replace(nullptr, observer), "No more than ", kMaxObservers,
              " observers can watch the work of npu at a time");
  observer_count.fetch_add(1);
}

void remove_work_observer(WorkObserver observer) noexcept {
  std::lock_guard<std::mutex> lock(changing);
  if (replace(observer, nullptr)) {
    observer_count.fetch_sub(1);
  }
}

void observe(const WorkRecord& record) noexcept {
  for (auto& slot : observers) {
    if (WorkObserver observer = slot.load(std::memory_order_acquire)) {
      observer(record);
    }
  }
}

}  // namespace inductor_npu
