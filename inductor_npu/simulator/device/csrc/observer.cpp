// Who watches the queued work: one observer for all streams.
#include "observer.h"

namespace inductor_npu {
namespace {

std::atomic<WorkObserver> current_observer{nullptr};

}  // namespace

std::atomic<int> observer_count{0};

void set_work_observer(WorkObserver observer) noexcept {
  current_observer.store(observer);
  observer_count.store(observer != nullptr ? 1 : 0);
}

void observe(const WorkRecord& record) noexcept {
  if (WorkObserver observer = current_observer.load()) {
    observer(record);
  }
}

}  // namespace inductor_npu
