// Tensors of npu as the collectives of gloo take them: tensors of the CPU over the same memory, in a type that gloo knows.
#pragma once

#include <ATen/core/Tensor.h>
#include <torch/csrc/distributed/c10d/Types.hpp>

#include <vector>

namespace inductor_npu::collectives {

// The same elements, as a tensor of the CPU. `tensor` is contiguous. `keeps_alive`: it holds the memory of `tensor`.
at::Tensor on_host(const at::Tensor& tensor, bool keeps_alive);

// Whether all collectives of gloo have code for elements of `type`.
bool known_to_gloo(at::ScalarType type);

// What moves the elements of `host` without looking at them: itself, or its bytes, with the same number of rows.
at::Tensor as_moved(const at::Tensor& host);

// The elements of a contiguous tensor as one row, over the same memory.
at::Tensor as_row(const at::Tensor& host);

// How elements of one type are reduced: by which of gloo's operators, in which type.
class Reduction {
 public:
  // Raises if `op` has no meaning for `type`, as maxima of complex numbers. `ranks`: how many are reduced.
  // `knows_bfloat16`: whether gloo's collective has code for it; all_reduce has.
  Reduction(const c10d::ReduceOp& op, at::ScalarType type, int ranks, bool knows_bfloat16 = true);

  c10d::ReduceOp gloo_op() const { return gloo_op_; }
  // What gloo reduces: `host` itself where it serves as it is, else a copy.
  at::Tensor argument(const at::Tensor& host) const;
  // Where gloo puts a result that is to come to `host`.
  at::Tensor room(const at::Tensor& host) const { return carried(host); }
  // From gloo's result to that of the operator, in `host`. `carried` may be `host` itself.
  void finish(const at::Tensor& carried, const at::Tensor& host) const;

 private:
  at::Tensor carried(const at::Tensor& host) const;

  at::ScalarType type_, carrier_;
  bool same_bytes_;  // numbers of the carrier are those of the type, or halves of them
  c10d::ReduceOp gloo_op_;
  bool flips_sign_ = false;  // unsigned numbers of 64 bits are compared as signed ones
  bool divides_ = false;
  int ranks_;
  double factor_ = 1.0;
  at::Tensor factors_;  // of the CPU
};

}  // namespace inductor_npu::collectives
