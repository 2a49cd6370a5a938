#include "collectives/host_tensors.h"

#include <ATen/Functions.h>
#include <ATen/ops/from_blob.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <limits>

namespace inductor_npu::collectives {
namespace {

using Op = c10d::ReduceOp;

const char* name_of(Op::RedOpType op) {
  switch (op) {
    case Op::SUM: return "SUM";
    case Op::AVG: return "AVG";
    case Op::PRODUCT: return "PRODUCT";
    case Op::MIN: return "MIN";
    case Op::MAX: return "MAX";
    case Op::BAND: return "BAND";
    case Op::BOR: return "BOR";
    case Op::BXOR: return "BXOR";
    case Op::PREMUL_SUM: return "PREMUL_SUM";
    default: return "UNUSED";
  }
}

bool is_bitwise(Op::RedOpType op) {
  return op == Op::BAND || op == Op::BOR || op == Op::BXOR;
}

// Truth values are bytes of 0 and 1.
Op::RedOpType of_truth_values(Op::RedOpType op) {
  switch (op) {
    case Op::SUM:
    case Op::BOR: return Op::MAX;
    case Op::PRODUCT:
    case Op::BAND: return Op::MIN;
    default: return op;
  }
}

// A type of gloo's in which results of `type` are exact, or are rounded once more than in `type` itself.
at::ScalarType carrier_of(at::ScalarType type, bool knows_bfloat16) {
  switch (type) {
    case at::kBFloat16: return knows_bfloat16 ? at::kBFloat16 : at::kFloat;
    case at::kBool: return at::kByte;
    case at::kShort:
    case at::kUInt16: return at::kInt;
    case at::kUInt32:
    case at::kUInt64: return at::kLong;
    case at::kComplexHalf: return at::kHalf;
    case at::kComplexFloat: return at::kFloat;
    case at::kComplexDouble: return at::kDouble;
    default: return known_to_gloo(type) ? type : at::kFloat;
  }
}

}  // namespace

at::Tensor on_host(const at::Tensor& tensor, bool keeps_alive) {
  const c10::Storage storage = keeps_alive ? tensor.storage() : c10::Storage();
  return at::from_blob(tensor.mutable_data_ptr(), tensor.sizes(), tensor.strides(), [storage](void*) {},
                       at::TensorOptions(tensor.scalar_type()).device(at::kCPU));
}

bool known_to_gloo(at::ScalarType type) {
  constexpr std::array types{at::kFloat, at::kDouble, at::kHalf, at::kChar, at::kByte, at::kInt, at::kLong};
  return std::find(types.begin(), types.end(), type) != types.end();
}

at::Tensor as_moved(const at::Tensor& host) {
  if (known_to_gloo(host.scalar_type())) {
    return host;
  }
  const c10::IntArrayRef sizes = host.sizes();
  const int64_t rows = sizes.empty() ? 1 : sizes[0];
  const int64_t row = sizes.empty() ? 1 : c10::multiply_integers(sizes.slice(1));
  return at::from_blob(host.mutable_data_ptr(), {rows, row * static_cast<int64_t>(host.element_size())},
                       [host](void*) {}, at::TensorOptions(at::kByte));
}

at::Tensor as_row(const at::Tensor& host) {
  return at::from_blob(host.mutable_data_ptr(), {host.numel()}, [host](void*) {},
                       at::TensorOptions(host.scalar_type()));
}

Reduction::Reduction(const Op& op, at::ScalarType type, int ranks, bool knows_bfloat16)
    : type_(type),
      carrier_(carrier_of(type, knows_bfloat16)),
      same_bytes_(type == at::kBool || type == at::kUInt64 || c10::isComplexType(type)),
      gloo_op_(op.op_),
      ranks_(ranks) {
  const Op::RedOpType wanted = op.op_;
  TORCH_CHECK(!c10::isQIntType(type), "collectives that reduce take no quantized tensors, got ", type);
  TORCH_CHECK(!c10::isComplexType(type) || wanted == Op::SUM || wanted == Op::AVG || wanted == Op::PREMUL_SUM,
              "ReduceOp.", name_of(wanted), " has no meaning for complex numbers (", type, ")");
  TORCH_CHECK(!is_bitwise(wanted) || c10::isIntegralType(type, /*includeBool=*/true), "ReduceOp.", name_of(wanted),
              " works on bits: it takes integers and booleans, got ", type);
  TORCH_CHECK(type != at::kBool || (wanted != Op::AVG && wanted != Op::PREMUL_SUM), "ReduceOp.", name_of(wanted),
              " has no meaning for booleans");
  if (wanted == Op::AVG) {
    divides_ = true;
    gloo_op_ = Op::SUM;
  } else if (wanted == Op::PREMUL_SUM) {
    const auto* supplement = dynamic_cast<c10d::NCCLPreMulSumSupplement*>(op.supplement_.get());
    TORCH_CHECK(supplement != nullptr, "ReduceOp.PREMUL_SUM needs its factor: make it with "
                "torch.distributed._make_nccl_premul_sum");
    factor_ = supplement->double_factor;
    factors_ = supplement->tensor_factor.defined() ? supplement->tensor_factor.to(at::kCPU) : at::Tensor();
    factor_ = factors_.defined() ? 1.0 : factor_;
    gloo_op_ = Op::SUM;
  } else if (type == at::kBool) {
    gloo_op_ = of_truth_values(wanted);
  }
  flips_sign_ = type == at::kUInt64 && (wanted == Op::MIN || wanted == Op::MAX);
}

// The elements in gloo's type: over the same memory where they are the same bytes.
at::Tensor Reduction::carried(const at::Tensor& host) const {
  if (type_ == carrier_) {
    return host;
  }
  if (!same_bytes_) {
    return host.to(carrier_);
  }
  std::vector<int64_t> sizes = host.sizes().vec();
  if (c10::isComplexType(type_)) {
    sizes.push_back(2);
  }
  return at::from_blob(host.mutable_data_ptr(), sizes, [host](void*) {}, at::TensorOptions(carrier_));
}

at::Tensor Reduction::argument(const at::Tensor& host) const {
  at::Tensor argument = carried(host);
  if (factors_.defined()) {
    return argument.mul(factors_.to(carrier_));
  }
  if (factor_ != 1.0) {
    return argument.mul(factor_);
  }
  return flips_sign_ ? argument.bitwise_xor(std::numeric_limits<int64_t>::min()) : argument;
}

void Reduction::finish(const at::Tensor& carried, const at::Tensor& host) const {
  at::Tensor result = carried;
  if (flips_sign_) {
    result = result.bitwise_xor(std::numeric_limits<int64_t>::min());
  }
  if (divides_) {
    c10::isIntegralType(type_, /*includeBool=*/false) ? result.div_(ranks_, "trunc") : result.div_(ranks_);
  }
  if (result.data_ptr() == host.data_ptr()) {
    return;
  }
  if (same_bytes_) {
    std::memcpy(host.mutable_data_ptr(), result.const_data_ptr(), host.nbytes());
  } else {
    host.copy_(result);
  }
}

}  // namespace inductor_npu::collectives
