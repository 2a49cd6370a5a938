// Captured graphs, with the semantics of torch.cuda.CUDAGraph: work queued between capture_begin and capture_end is
// recorded with the memory that it uses, and replay() queues all of it again by one call.
#pragma once

#include <c10/core/Allocator.h>
#include <c10/core/Storage.h>
#include <c10/core/Stream.h>

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "allocator.h"
#include "driver.h"
#include "library.h"

namespace inductor_npu {

// How a graph treats memory that it reads or writes and that is not its own.
enum class ForeignMemory {
  kWatched,    // a replay raises once some of it was freed
  kUnwatched,  // whoever replays sees to it
};

class CapturedGraph {
 public:
  explicit CapturedGraph(ForeignMemory foreign = ForeignMemory::kWatched) : foreign_(foreign) {}
  ~CapturedGraph();
  CapturedGraph(const CapturedGraph&) = delete;
  CapturedGraph& operator=(const CapturedGraph&) = delete;

  // Captures this thread's current stream. `pool` {0, 0}: a new pool; else that of another graph or of a MemPool. Raises
  // if the graph holds a capture already or the stream captures.
  void capture_begin(c10::MempoolId_t pool = {0, 0});
  // On the stream of capture_begin. Raises if there is no graph, as after an error during the capture; the memory is
  // given back then.
  void capture_end();
  // Queues the work on the current stream of the graph's device. Raises if memory that it needs was freed.
  void replay();
  // Forgets the graph and gives back its memory, after its replays.
  void reset();

  bool is_capturing() const noexcept { return capture_ != 0; }
  bool is_captured() const noexcept { return graph_ != nullptr; }
  c10::MempoolId_t pool() const;
  c10::DeviceIndex device() const noexcept { return device_; }
  // What was allocated from the pool during the capture: a replay may write it.
  const std::vector<MemoryRange>& allocations() const noexcept { return allocations_; }
  // The names of the work, in the order in which it runs.
  std::vector<std::string> names() const;
  // Writes the work as a graph in the DOT language.
  void debug_dump(const std::string& path) const;

  // Keeps memory of the host alive that a replay copies from or to.
  void keep(c10::Storage storage) { kept_.push_back(std::move(storage)); }
  // A generator of the library for an operator of the capture that draws from `state`, where operators queue their work.
  at::Generator draw(const c10::intrusive_ptr<library::GeneratorState>& state);
  // Says that `reader` will use the memory at `pointer` in each replay.
  void uses(const void* pointer, const std::string& reader);

 private:
  void give_back();
  // `inner` is replayed in this graph's capture, on `stream`.
  void take_draws_of(const CapturedGraph& inner, driver::Stream* stream);
  void check_captured(const char* what) const;

  const ForeignMemory foreign_;
  c10::DeviceIndex device_ = -1;
  std::optional<c10::Stream> stream_;  // while it captures
  uint64_t capture_ = 0;
  c10::MempoolId_t pool_{0, 0};
  driver::OwnedGraph graph_;
  std::shared_ptr<MemoryWatch> watch_;
  std::vector<MemoryRange> allocations_;
  std::vector<c10::Storage> kept_;
  std::vector<std::shared_ptr<library::CapturedDraws>> draws_;  // its own, and of graphs that were replayed in it
};

// The graph that `stream` captures into; null if it captures none. Cheap where nothing is captured.
CapturedGraph* capturing_graph(const driver::Stream* stream);
// The same of the current stream of the current device.
CapturedGraph* capturing_graph_here();

// Raises if `stream` captures, and makes its capture fail: `what`, such as "a synchronisation", cannot be captured.
// `advice` says what to do instead.
void refuse_in_capture(driver::Stream* stream, const std::string& what, std::string_view advice);

}  // namespace inductor_npu
