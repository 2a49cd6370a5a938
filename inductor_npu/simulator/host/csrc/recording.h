// What a stream records while it captures a graph, and the graph that this becomes: work in the order in which it was
// queued. That order respects every wait between the streams that take part, hence a replay runs it as it stands.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <vector>

#include "work_queue.h"

namespace inductor_npu {

// Recorded work that can run again and again. Replays of one graph run one after the other.
class RecordedGraph {
 public:
  explicit RecordedGraph(std::vector<std::unique_ptr<Work>> work) : work_(std::move(work)) {}

  // Runs the work on the calling thread, which works off `queue`; stops at the first failure and raises it, together
  // with the name of what failed. `origin`: the call that asked for the replay.
  void run(const WorkQueue& queue, const WorkOrigin& origin);

  size_t size() const noexcept { return work_.size(); }
  std::vector<std::string> names() const;
  // How long the last replay took; 0: there was none.
  int64_t last_ns() const noexcept { return last_ns_.load(std::memory_order_relaxed); }

 private:
  const std::vector<std::unique_ptr<Work>> work_;
  std::mutex running_;
  std::atomic<int64_t> last_ns_{0};
};

// A capture in progress. Thread-safe.
class Recording {
 public:
  // A place in what a stream has recorded; it names a stream's work up to there.
  using Position = uint64_t;

  Recording(uint64_t id, WorkQueue* origin) : id(id), origin_(origin), streams_{{origin, {}}} {}

  void append(WorkQueue* queue, std::unique_ptr<Work> work);
  Position position(WorkQueue* queue);
  // `waiting` takes part from here on: its work comes after that of `recorded` up to `position`.
  void join(WorkQueue* waiting, WorkQueue* recorded, Position position);
  bool is_origin(const WorkQueue* queue) const noexcept { return queue == origin_; }
  // All that take part.
  std::vector<WorkQueue*> queues();

  // Keeps the first reason why there will be no graph.
  void invalidate(const std::string& reason);

  // The graph. Raises if the capture was invalidated, or if the origin has not waited for all streams that took part.
  std::unique_ptr<RecordedGraph> finish();

  const uint64_t id;

 private:
  struct Taken {
    Position recorded = 0;    // pieces of work, and waits
    Position waited_for = 0;  // how far another stream has waited
  };

  std::mutex mutex_;
  WorkQueue* const origin_;
  std::vector<std::unique_ptr<Work>> work_;
  std::unordered_map<WorkQueue*, Taken> streams_;
  std::string invalid_;
};

}  // namespace inductor_npu
