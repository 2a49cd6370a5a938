// Operators of a library that runs on the calling thread, in captured graphs: they run when their turn comes in a replay.
// What a library queues by itself (library::kQueues) needs none of this.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/stack.h>

#include <functional>
#include <string>
#include <vector>

#include "graph.h"

namespace c10 {
class OperatorHandle;
}

namespace inductor_npu {

// Records a call of `op` with the arguments on `stack` and leaves its results there: tensors whose memory each replay
// fills. Their sizes come from the operator's shape inference (dispatch key Meta). Raises, by the operator's name, where
// sizes depend on values, where a tensor of the CPU is read, and for tensors that are not dense.
void capture_operator(CapturedGraph& graph, const c10::OperatorHandle& op, torch::jit::Stack* stack);

// Records a call of `function` with the given tensors, whose memory the graph does not own.
void capture_call(CapturedGraph& graph, std::string name, const std::vector<at::Tensor>& tensors,
                  std::function<void(const std::vector<at::Tensor>&)> function);

}  // namespace inductor_npu
