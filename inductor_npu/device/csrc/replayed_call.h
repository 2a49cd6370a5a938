// A captured function as compiled code calls it: inputs are put where the graph reads them, the graph is replayed, and
// results are handed out over the graph's memory.
//
// Results stay valid for as long as somebody holds them. A replay that would overwrite some moves them first: their
// storages get memory of their own, with a copy of what they hold. Nobody pays for results that are gone by then. While
// another thread reads some, they do not move, and there is no replay.
#pragma once

#include <ATen/core/Tensor.h>

#include <memory>
#include <optional>
#include <variant>
#include <vector>

#include "graph.h"

namespace inductor_npu {

class ReplayedCall {
 public:
  // Where an argument is when the graph runs.
  struct Fixed {
    const void* address;  // the caller's tensor always lies there
  };
  struct Copied {
    at::Tensor to;  // elements are copied there first
    bool written;   // and back afterwards
  };
  struct Ignored {};  // no tensor, or one without elements
  using Input = std::variant<Fixed, Copied, Ignored>;

  // What the call returns: a tensor of the graph, a view of an argument, or nothing (the caller fills it in).
  struct OfInput {
    size_t index;
    std::vector<int64_t> sizes, strides;
    int64_t offset;  // from the argument's own
  };
  using Output = std::variant<std::monostate, at::Tensor, OfInput>;

  // `graph` is captured. Calls whose graphs share a pool know each other.
  ReplayedCall(std::shared_ptr<CapturedGraph> graph, std::vector<Input> inputs, std::vector<Output> outputs);
  ~ReplayedCall();
  ReplayedCall(const ReplayedCall&) = delete;
  ReplayedCall& operator=(const ReplayedCall&) = delete;

  // The first argument that is not where the graph reads it; -1 if all are. `arguments` without a tensor are undefined.
  int64_t moved_input(const std::vector<at::Tensor>& arguments) const;
  // Replays with these arguments, none of which has moved. Undefined tensors stand for what the caller fills in.
  // `step`: what earlier steps handed out is not needed any longer, so that an access of what is overwritten raises.
  // Nothing if that cannot be, because of results that are being read. The caller holds Python's lock.
  std::optional<std::vector<at::Tensor>> call(const std::vector<at::Tensor>& arguments, int64_t step);

 private:
  struct Results;  // what was handed out, and may still be held
  struct Overwritten {
    std::weak_ptr<Results> results;
    std::vector<size_t> outputs;
  };

  void find_overlaps(ReplayedCall& other);
  void wait_for_other_stream(c10::Stream stream) const;
  bool protect_and_replay(c10::Stream stream, int64_t step);
  at::Tensor hand_out(size_t index, const at::Tensor& captured, int64_t step);

  const std::shared_ptr<CapturedGraph> graph_;
  const std::vector<Input> inputs_;
  const std::vector<Output> outputs_;
  const std::shared_ptr<Results> results_;
  std::vector<Overwritten> overwritten_;  // results that a replay overwrites, its own among them
};

}  // namespace inductor_npu
