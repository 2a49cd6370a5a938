// Operators on nested tensors of layout strided that name a device or ask for sizes: PyTorch's kernels for nested
// tensors work on the memory of any device, so they get the tensors as they are. All others are run by the fallback.
#include <ATen/core/dispatch/Dispatcher.h>
#include <torch/library.h>

#include "runtime.h"

namespace inductor_npu {
namespace {

constexpr c10::DispatchKeySet kNestedCpu(c10::DispatchKey::NestedTensorCPU);

void run_as_it_is(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  op.redispatchBoxed(kNestedCpu, stack);
}

TORCH_LIBRARY_IMPL(aten, NestedTensorPrivateUse1, m) {
  for (const char* name : {"_nested_tensor_size", "_nested_tensor_strides", "_nested_tensor_storage_offsets",
                           "_to_copy", "copy_", "empty_like", "ones_like", "native_dropout"}) {
    m.impl(name, torch::CppFunction::makeFromBoxedFunction<&run_as_it_is>());
  }
}

}  // namespace
}  // namespace inductor_npu
