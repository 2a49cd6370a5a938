// Operators of npu that are written in terms of the library's, because PyTorch asks a device from outside for a kernel of
// its own.
#pragma once

#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/core/Tensor.h>
#include <ATen/core/boxing/KernelFunction.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>
#include <c10/core/DeviceGuard.h>
#include <torch/library.h>

#include <optional>

#include "fallback.h"
#include "graph_operators.h"
#include "library.h"
#include "timeline.h"

namespace inductor_npu {

// The call of one such operator: its arguments as tensors of the library, in the order of the current stream.
class LibraryCall {
 public:
  LibraryCall(const char* name, const at::Tensor& tensor)
      : device_(tensor.device()),
        view_(tensor.device()),
        order_(tensor.device()),
        work_(name, tensor.device().index()),
        name_(name),
        graph_(library::kQueues ? capturing_graph_here() : nullptr) {}

  // Raises, as eager operators do elsewhere, if the tensor is on another device and no number.
  at::Tensor library(const at::Tensor& tensor) {
    const bool here = on_npu(tensor);
    TORCH_CHECK(here ? tensor.device() == device_ : !tensor.defined() || tensor.dim() == 0,
                "Expected all tensors to be on the same device, but found at least two devices, ", device_, " and ",
                tensor.device(), "! (in a call of operator ", name_, ")");
    if (!here) {
      return tensor;
    }
    if (C10_UNLIKELY(graph_ != nullptr)) {
      graph_->uses(tensor.storage().data(), name_);
    }
    return view_.to_library(tensor);
  }
  at::Tensor library(const std::optional<at::Tensor>& tensor) {
    return tensor.has_value() ? library(*tensor) : at::Tensor();
  }
  at::Tensor npu(at::Tensor tensor) { return tensor.defined() ? view_.to_npu(tensor) : tensor; }

 private:
  c10::Device device_;
  LibraryView view_;
  library::InOrder order_;
  timeline::HostWork work_;
  at::AutoDispatchBelowADInplaceOrView below_autograd_;
  const char* name_;
  CapturedGraph* graph_;  // what queues its work is captured as it stands
};

// The boxed form of such an operator's kernel, where it runs on the calling thread: a capture records the call. The first
// argument is a tensor, which says on which device.
template <auto* kernel>
void run_or_capture(const c10::OperatorHandle& op, c10::DispatchKeySet keys, torch::jit::Stack* stack) {
  const c10::IValue& first = torch::jit::peek(*stack, 0, op.schema().arguments().size());
  const c10::DeviceGuard guard(first.toTensor().device());
  if (CapturedGraph* graph = capturing_graph_here(); C10_UNLIKELY(graph != nullptr)) {
    capture_operator(*graph, op, stack);
    return;
  }
  static const auto function = c10::KernelFunction::makeFromUnboxedFunction(TORCH_FN(kernel));
  function.callBoxed(op, keys, stack);
}

template <auto* kernel>
torch::CppFunction library_kernel() {
  if constexpr (library::kQueues) {
    return torch::CppFunction(TORCH_FN(kernel));
  } else {
    return torch::CppFunction::makeFromBoxedFunction<&run_or_capture<kernel>>();
  }
}

// For captures and tracing, where PyTorch has none.
inline void add_shapes(torch::Library& m, const char* name, torch::CppFunction&& function) {
  const auto known = c10::Dispatcher::singleton().findSchemaOrThrow((std::string("aten::") + name).c_str(), "");
  if (!known.hasKernelForDispatchKey(c10::DispatchKey::Meta)) {
    m.impl(name, std::move(function));
  }
}

}  // namespace inductor_npu
