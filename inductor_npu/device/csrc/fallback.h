// Running an operator of the library (library.h) on npu memory: tensors are re-labelled, bytes are not moved.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/stack.h>
#include <c10/core/DeviceGuard.h>
#include <c10/util/SmallVector.h>

namespace c10 {
class OperatorHandle;
}

#include "library.h"
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

// The npu tensors of one operator call, seen as tensors of the library. While it lives, what this thread allocates as
// memory of the library is memory of `device`, so that new results become npu tensors without a copy (unless
// `results_on_device` is false).
class LibraryView {
 public:
  explicit LibraryView(c10::Device device, bool results_on_device = true);
  LibraryView(const LibraryView&) = delete;
  LibraryView& operator=(const LibraryView&) = delete;

  // Whether a tensor is dense: its elements are in one storage, and say all of it.
  static bool is_plain(const at::Tensor& tensor);

  // The library's tensor over the memory of `tensor`. The same storage gives the same storage, so that aliasing is kept.
  at::Tensor to_library(const at::Tensor& tensor);

  // The npu tensor for a result: the argument that it was made of, a view of an argument's storage, or a new tensor.
  at::Tensor to_npu(const at::Tensor& tensor);

  // What the library's tensors made so far dispatch to: its dense, sparse or quantised kernels.
  c10::DispatchKeySet keys() const { return keys_; }

  // Carries what the operator changed of an argument (sizes, strides, storage) to the npu tensor.
  void write_back(const at::Tensor& npu, const at::Tensor& alias);

  // Says that the operator writes the argument `npu`.
  void written(const at::Tensor& npu) const;

 private:
  struct StoragePair {
    c10::Storage npu, alias;
    const void* data;  // of both, when the pair was made
  };
  struct TensorPair {
    at::Tensor npu, alias;
  };

  c10::Storage library_storage(const c10::Storage& npu);
  c10::Storage npu_storage(const c10::Storage& alias, bool sole_owner);
  at::Tensor special_to_library(const at::Tensor& tensor);
  at::Tensor special_to_npu(const at::Tensor& tensor);
  void write_back_sparse(const at::Tensor& npu, const at::Tensor& alias);
  void refresh(StoragePair& pair);

  c10::Device device_;
  c10::DispatchKeySet keys_{library::kDense};
  c10::OptionalDeviceGuard guard_;
  library::AllocateOn allocations_;
  c10::SmallVector<StoragePair, 4> storages_;
  c10::SmallVector<TensorPair, 4> tensors_;
};

// Runs the library's kernel for `op` on the arguments on `stack`, and leaves its results there. `kernels` is what the
// call dispatched to on the npu (dense, sparse, ...), as the library's dispatch key.
void run_in_library(const c10::OperatorHandle& op, c10::DispatchKeySet kernels, torch::jit::Stack* stack);

}  // namespace inductor_npu
