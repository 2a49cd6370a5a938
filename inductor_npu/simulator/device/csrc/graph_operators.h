// Operators of the library in captured graphs: they run on the host's threads, when their turn comes in a replay.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/boxing/KernelFunction.h>
#include <ATen/core/stack.h>

#include <functional>
#include <string>
#include <vector>

#include "graph.h"

namespace c10 {
class OperatorHandle;
}

namespace inductor_npu {

// The graph that the current stream of the current device captures into; null if none.
CapturedGraph* capturing_graph_here();

// Records a call of `op` with the arguments on `stack` and leaves its results there: tensors whose memory each replay
// fills. Their sizes come from the operator's shape inference (dispatch key Meta). Raises, by the operator's name, where
// sizes depend on values, where a tensor of the CPU is read, and for tensors that are not dense.
void capture_operator(CapturedGraph& graph, const c10::OperatorHandle& op, torch::jit::Stack* stack);

// Records a call of `function` with the given tensors, whose memory the graph does not own.
void capture_call(CapturedGraph& graph, std::string name, const std::vector<at::Tensor>& tensors,
                  std::function<void(const std::vector<at::Tensor>&)> function);

// The boxed form of an operator's kernel for npu tensors that runs on the host's threads: it is recorded in a capture.
template <auto* kernel>
void host_kernel(const c10::OperatorHandle& op, c10::DispatchKeySet keys, torch::jit::Stack* stack) {
  if (CapturedGraph* graph = capturing_graph_here(); C10_UNLIKELY(graph != nullptr)) {
    capture_operator(*graph, op, stack);
    return;
  }
  static const auto function = c10::KernelFunction::makeFromUnboxedFunction(TORCH_FN(kernel));
  function.callBoxed(op, keys, stack);
}

}  // namespace inductor_npu
