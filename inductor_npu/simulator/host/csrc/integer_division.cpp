// Integer division that rounds towards zero. The CPU's kernel divides the least number by -1 with the processor's
// instruction, which ends the process (SIGFPE). Here the quotient wraps to the least number, as it does where it is
// rounded down, and as on CUDA: a number is negated instead of divided by -1.
#include <ATen/ATen.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>
#include <torch/library.h>

#include "fallback.h"
#include "library.h"

namespace inductor_npu {
namespace {

// Whether the CPU's kernel would divide integers of 32 or 64 bits, some of them by -1.
bool may_trap(const at::Tensor& self, const at::Tensor& other, const c10::IValue& rounding_mode) {
  if (rounding_mode.isNone() || rounding_mode.toStringView() != "trunc") {
    return false;
  }
  const at::ScalarType type = at::result_type(self, other);
  if (type != at::kInt && type != at::kLong) {
    return false;
  }
  const bool is_number = other.device().is_cpu() && other.dim() == 0;
  return !is_number || other.item<int64_t>() == -1;
}

// The kernel of aten::div with a rounding mode, of its form that writes into the first argument, and of the one that
// writes into the last.
void divide(const c10::OperatorHandle& op, c10::DispatchKeySet /*keys*/, torch::jit::Stack* stack) {
  const size_t first = stack->size() - op.schema().arguments().size();
  const at::Tensor self = (*stack)[first].toTensor(), other = (*stack)[first + 1].toTensor();
  if (may_trap(self, other, (*stack)[first + 2])) {
    const at::AutoDispatchBelowADInplaceOrView guard;
    const c10::Device device = on_npu(self) ? self.device() : other.device();
    const at::ScalarType type = at::result_type(self, other);
    const at::Tensor dividend = self.to(device, type), divisor = other.to(device, type);
    const at::Tensor is_minus_one = divisor.eq(-1);
    const at::Tensor negated = at::where(is_minus_one, dividend.neg(), dividend);
    if (op.schema().is_mutable() && op.schema().arguments().front().alias_info() != nullptr) {
      self.copy_(negated);
    } else {
      (*stack)[first] = negated;
    }
    (*stack)[first + 1] = divisor.masked_fill(is_minus_one, 1);
  }
  run_in_library(op, c10::DispatchKeySet(library::kDense), stack);
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  for (const char* name : {"div.Tensor_mode", "div_.Tensor_mode", "div.out_mode"}) {
    m.impl(name, torch::CppFunction::makeFromBoxedFunction<&divide>());
  }
}

}  // namespace
}  // namespace inductor_npu
