// Attention between npu and a library's kernels: heads that queries share, and the layout of results. All tensors are the
// library's.
#pragma once

#include <ATen/Functions.h>

namespace inductor_npu {

// In the strides that PyTorch's shape inference (torch/_meta_registrations.py) promises to compiled code.
inline at::Tensor with_layout_of(const at::Tensor& tensor, const at::Tensor& like) {
  if (like.is_non_overlapping_and_dense() && tensor.strides() == like.strides()) {
    return tensor;  // what empty_like would give, without an allocation
  }
  at::Tensor empty = at::empty_like(like);
  return tensor.strides() == empty.strides() ? tensor : empty.copy_(tensor);
}

// Keys or values with a head for each head of queries: grouped queries share one. Fused
// kernels of libraries want all.
inline at::Tensor for_all_heads(const at::Tensor& tensor, const at::Tensor& query) {
  const int64_t heads = query.size(1), shared = tensor.size(1);
  return heads == shared ? tensor : tensor.repeat_interleave(heads / shared, 1);
}

// The gradient of keys or values, of that of `for_all_heads`.
inline at::Tensor of_shared_heads(const at::Tensor& gradient, const at::Tensor& like) {
  return gradient.size(1) == like.size(1) ? gradient : gradient.unflatten(1, {like.size(1), -1}).sum(2);
}

}  // namespace inductor_npu
