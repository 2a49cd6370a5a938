#include "recording.h"

#include <c10/util/Exception.h>

#include <algorithm>
#include <stdexcept>

#include "spin.h"

namespace inductor_npu {

void RecordedGraph::run(const WorkQueue& queue, const WorkOrigin& origin) {
  std::lock_guard<std::mutex> lock(running_);
  const int64_t begin = now_ns();
  for (const std::unique_ptr<Work>& work : work_) {
    work->origin = origin;
    try {
      queue.run_observed(*work);
    } catch (...) {
      throw std::runtime_error(std::string(work->name()) + " failed: " + describe_current_exception());
    }
  }
  last_ns_.store(now_ns() - begin, std::memory_order_relaxed);
}

std::vector<std::string> RecordedGraph::names() const {
  std::vector<std::string> names;
  for (const std::unique_ptr<Work>& work : work_) {
    if (!work->is_hidden()) {
      names.emplace_back(work->name());
    }
  }
  return names;
}

void Recording::append(WorkQueue* queue, std::unique_ptr<Work> work) {
  std::lock_guard<std::mutex> lock(mutex_);
  work_.push_back(std::move(work));
  ++streams_[queue].recorded;
}

Recording::Position Recording::position(WorkQueue* queue) {
  std::lock_guard<std::mutex> lock(mutex_);
  return streams_[queue].recorded;
}

void Recording::join(WorkQueue* waiting, WorkQueue* recorded, Position position) {
  std::lock_guard<std::mutex> lock(mutex_);
  Taken& before = streams_[recorded];
  before.waited_for = std::max(before.waited_for, position);
  ++streams_[waiting].recorded;  // who waits for `waiting` waits for this wait, too
}

std::vector<WorkQueue*> Recording::queues() {
  std::lock_guard<std::mutex> lock(mutex_);
  std::vector<WorkQueue*> queues;
  for (const auto& [queue, taken] : streams_) {
    queues.push_back(queue);
  }
  return queues;
}

void Recording::invalidate(const std::string& reason) {
  std::lock_guard<std::mutex> lock(mutex_);
  if (invalid_.empty()) {
    invalid_ = reason;
  }
}

std::unique_ptr<RecordedGraph> Recording::finish() {
  std::lock_guard<std::mutex> lock(mutex_);
  TORCH_CHECK(invalid_.empty(), "there is no graph: an operation during its capture failed: ", invalid_);
  for (const auto& [queue, taken] : streams_) {
    TORCH_CHECK(queue == origin_ || taken.waited_for == taken.recorded, "there is no graph: stream ", queue->id,
                " of npu:", queue->device, " took part in the capture of stream ", origin_->id,
                ", which has not waited for all of its work: call wait_stream() on the capturing stream before the "
                "capture ends");
  }
  return std::make_unique<RecordedGraph>(std::move(work_));
}

}  // namespace inductor_npu
