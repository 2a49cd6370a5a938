// Running an operator's CPU kernel on npu memory: tensors are re-labelled, bytes are not moved.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/stack.h>
#include <c10/core/DeviceGuard.h>
#include <c10/util/SmallVector.h>

namespace c10 {
class OperatorHandle;
}

#include "runtime.h"

namespace inductor_npu {

inline bool on_npu(const at::Tensor& tensor) {
  return tensor.defined() && tensor.device().type() == kNpu;
}

// Calls `visit` with each tensor of an argument, also those of a list.
template <typename Visit>
void visit_tensors(const c10::IValue& value, Visit visit) {
  if (value.isTensor()) {
    visit(value.toTensor());
  } else if (value.isTensorList()) {
    for (const at::Tensor& tensor : value.toTensorVector()) {
      visit(tensor);
    }
  } else if (value.isOptionalTensorList()) {
    for (const std::optional<at::Tensor>& tensor : value.toOptionalTensorVector()) {
      if (tensor.has_value()) {
        visit(*tensor);
      }
    }
  }
}

// The npu tensors of one operator call, seen as CPU tensors. While it lives, what this thread allocates as CPU memory
// is memory of `device`, so that new results become npu tensors without a copy (unless `results_on_device` is false).
class HostView {
 public:
  explicit HostView(c10::Device device, bool results_on_device = true);
  ~HostView();
  HostView(const HostView&) = delete;
  HostView& operator=(const HostView&) = delete;

  // The CPU tensor over the memory of `tensor`. The same storage gives the same storage, so that aliasing is kept.
  at::Tensor to_cpu(const at::Tensor& tensor);

  // The npu tensor for a result: the argument that it was made of, a view of an argument's storage, or a new tensor.
  at::Tensor to_npu(const at::Tensor& tensor);

  // What the CPU tensors made so far dispatch to: dense, sparse or quantised kernels of the CPU.
  c10::DispatchKeySet keys() const { return keys_; }

  // Carries what the operator changed of an argument (sizes, strides, storage) to the npu tensor.
  void write_back(const at::Tensor& npu, const at::Tensor& cpu);

  // Says that the operator writes the argument `npu`.
  void written(const at::Tensor& npu) const;

 private:
  struct StoragePair {
    c10::Storage npu, cpu;
    const void* data;  // of both, when the pair was made
  };
  struct TensorPair {
    at::Tensor npu, cpu;
  };

  c10::Storage cpu_storage(const c10::Storage& npu);
  c10::Storage npu_storage(const c10::Storage& cpu, bool sole_owner);
  at::Tensor special_to_cpu(const at::Tensor& tensor);
  at::Tensor special_to_npu(const at::Tensor& tensor);
  void write_back_sparse(const at::Tensor& npu, const at::Tensor& cpu);
  void refresh(StoragePair& pair);

  c10::Device device_;
  c10::DispatchKeySet keys_{c10::DispatchKey::CPU};
  c10::OptionalDeviceGuard guard_;
  c10::Device previous_;  // where the thread allocated CPU memory before
  c10::SmallVector<StoragePair, 4> storages_;
  c10::SmallVector<TensorPair, 4> tensors_;
};

// Runs the CPU's kernel for `op` on the arguments on `stack`, and leaves its results there. `kernels` is what the call
// dispatched to on the npu (dense, sparse, ...), as the CPU's dispatch key.
void run_on_host(const c10::OperatorHandle& op, c10::DispatchKeySet kernels, torch::jit::Stack* stack);

}  // namespace inductor_npu
