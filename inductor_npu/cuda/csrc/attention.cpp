// Attention, for which PyTorch asks a device from outside to bring kernels of its own: those that PyTorch takes for
// tensors of CUDA.
#include <ATen/Context.h>
#include <ATen/Functions.h>
#include <ATen/native/DispatchStub.h>
#include <ATen/native/transformers/attention.h>
#include <ATen/native/transformers/sdp_utils_cpp.h>
#include <torch/library.h>

#include <algorithm>

#include "attention_heads.h"
#include "library_call.h"

namespace inductor_npu {
namespace {

constexpr int64_t kLongestHead = 256;      // of a flash kernel
constexpr int64_t kRowsOfSums = 32;        // the memory-efficient kernel pads the logarithms of sums to so many
constexpr int64_t kAlignedElements = 8;    // of 16 bits, or 4 of 32: what one access takes

bool heads_fit(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value, bool enable_gqa) {
  const auto q = query.sym_sizes(), k = key.sym_sizes(), v = value.sym_sizes();
  const bool same = enable_gqa ? k[1] != 0 && q[1] % k[1] == 0 : q[1] == k[1];
  return q[0] == k[0] && k[0] == v[0] && k[1] == v[1] && same && q[3] == k[3] && q[3] == v[3] && k[2] == v[2];
}

bool is_empty(const at::Tensor& tensor) {
  const auto sizes = tensor.sym_sizes();
  return std::any_of(sizes.begin(), sizes.end(), [](const c10::SymInt& size) { return size == 0; });
}

// Whether one of the fused kernels takes these inputs. Looks at sizes only: the tensors may be fake.
bool fused_takes(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
                 const std::optional<at::Tensor>& mask, double dropout_p, bool is_causal, bool enable_gqa) {
  const at::ScalarType dtype = query.scalar_type();
  const bool narrow = dtype == at::kHalf || dtype == at::kBFloat16;
  if ((!narrow && dtype != at::kFloat) || key.scalar_type() != dtype || value.scalar_type() != dtype) {
    return false;
  }
  for (const at::Tensor* tensor : {&query, &key, &value}) {
    if (tensor->is_nested() || tensor->dim() != 4 || is_empty(*tensor) || tensor->sym_stride(3) != 1) {
      return false;
    }
  }
  const bool masked = mask.has_value() && mask->defined();
  const int64_t aligned = narrow ? kAlignedElements : kAlignedElements / 2;
  const auto head = query.sym_size(3);
  const bool causal_fits = !is_causal || (!masked && query.sym_size(2) == key.sym_size(2));
  return dropout_p == 0.0 && heads_fit(query, key, value, enable_gqa) && head <= kLongestHead && head % aligned == 0 &&
         causal_fits && !(masked && mask->requires_grad());
}

int64_t fused_sdp_choice(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
                         const std::optional<at::Tensor>& mask, double dropout_p, bool is_causal,
                         std::optional<double> /*scale*/, bool enable_gqa) {
  const at::Context& context = at::globalContext();
  const bool allowed = context.userEnabledOverrideableSDP() && context.userEnabledFlashSDP();
  const bool fused = allowed && fused_takes(query, key, value, mask, dropout_p, is_causal, enable_gqa);
  TORCH_CHECK(fused || context.userEnabledMathSDP(),
              "No available kernel for scaled_dot_product_attention on device npu: the fused ones do not take these "
              "inputs (or are switched off) and the math one is switched off");
  return static_cast<int64_t>(fused ? at::SDPBackend::overrideable : at::SDPBackend::math);
}

std::optional<at::Tensor> if_defined(const at::Tensor& tensor) {
  return tensor.defined() ? std::optional(tensor) : std::nullopt;
}

// Which kernel runs, by PyTorch's own rules for tensors of CUDA: cuDNN's or the flash kernel, which both take heads
// that queries share, else the memory-efficient one. It is asked again in the backward pass, where the answer may be
// another one: all three mean the same by their results.
at::SDPBackend kernel_for(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, const at::Tensor& added,
                          bool is_causal, std::optional<double> scale) {
  const auto choice = static_cast<at::SDPBackend>(at::_fused_sdp_choice(
      q, k, v, if_defined(added), 0.0, is_causal, scale, /*enable_gqa=*/q.size(1) != k.size(1)));
  const bool shares = choice == at::SDPBackend::cudnn_attention || choice == at::SDPBackend::flash_attention;
  return shares ? choice : at::SDPBackend::efficient_attention;
}

// What a mask adds to scores.
at::Tensor added_to_scores(const at::Tensor& mask, const at::Tensor& query) {
  if (!mask.defined() || mask.scalar_type() != at::kBool) {
    return mask.defined() ? mask.to(query.scalar_type()) : mask;
  }
  return at::zeros_like(mask, query.options()).masked_fill_(mask.logical_not(), -INFINITY);
}

// As the memory-efficient kernel takes it: for every score, each row beginning at a multiple of 16 bytes.
std::optional<at::Tensor> for_every_score(at::Tensor added, const at::Tensor& query, const at::Tensor& key) {
  if (!added.defined()) {
    return std::nullopt;
  }
  const int64_t keys = key.size(2), padded = (keys + kAlignedElements - 1) / kAlignedElements * kAlignedElements;
  if (added.size(-1) == keys && (added.stride(-1) != 1 || padded != keys)) {
    added = at::constant_pad_nd(added, {0, padded - keys}).slice(-1, 0, keys);
  }
  return added.expand({query.size(0), query.size(1), query.size(2), keys});
}

// Where random numbers stood that no dropout drew: what the kernel made for it, or something else that nobody reads.
at::Tensor unused_counter(const at::Tensor& made, const at::Tensor& query) {
  const bool fits = made.defined() && made.dim() == 0 && made.scalar_type() == at::kLong &&
                    made.device() == query.device();
  return fits ? made : at::empty({}, query.options().dtype(at::kLong));
}

std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor, c10::SymInt, c10::SymInt, at::Tensor, at::Tensor, at::Tensor>
attention(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
          const std::optional<at::Tensor>& bias, double dropout_p, bool is_causal, bool return_debug_mask,
          std::optional<double> scale) {
  TORCH_CHECK(
      !return_debug_mask && dropout_p == 0.0,
      "_scaled_dot_product_fused_attention_overrideable on device npu has neither dropout nor a debug mask; use "
      "the math backend of scaled_dot_product_attention");
  LibraryCall call("aten::_scaled_dot_product_fused_attention_overrideable", query);
  const at::Tensor q = call.library(query), k = call.library(key), v = call.library(value);
  const at::Tensor added = added_to_scores(call.library(bias), q);
  at::Tensor output, logsumexp, seed, offset;
  switch (kernel_for(q, k, v, added, is_causal, scale)) {
    case at::SDPBackend::cudnn_attention: {
      auto results =
          at::_scaled_dot_product_cudnn_attention(q, k, v, if_defined(added), /*compute_log_sumexp=*/true, dropout_p,
                                                  is_causal, return_debug_mask, scale);
      output = std::get<0>(results);
      logsumexp = std::get<1>(results).view({q.size(0), q.size(1), q.size(2)});
      seed = std::get<6>(results);
      offset = std::get<7>(results);
      break;
    }
    case at::SDPBackend::flash_attention: {
      auto results =
          at::_scaled_dot_product_flash_attention(q, k, v, dropout_p, is_causal, return_debug_mask, scale);
      output = std::get<0>(results);
      logsumexp = std::get<1>(results);
      seed = std::get<6>(results);
      offset = std::get<7>(results);
      break;
    }
    default: {
      auto results = at::_scaled_dot_product_efficient_attention(
          q, for_all_heads(k, q), for_all_heads(v, q), for_every_score(added, q, k), /*compute_log_sumexp=*/true,
          dropout_p, is_causal, scale);
      output = std::get<0>(results);
      logsumexp = std::get<1>(results).slice(2, 0, query.size(2));
      seed = std::get<2>(results);
      offset = std::get<3>(results);
    }
  }
  return {call.npu(with_layout_of(output, q)),
          call.npu(logsumexp.contiguous()),
          at::Tensor(),
          at::Tensor(),
          query.size(2),
          key.size(2),
          call.npu(unused_counter(seed, q)),
          call.npu(unused_counter(offset, q)),
          at::Tensor()};
}

std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor> attention_backward(
    const at::Tensor& grad_out, const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
    const at::Tensor& bias, std::array<bool, 4> mask, const at::Tensor& out, const at::Tensor& logsumexp,
    const at::Tensor& /*cum_seq_q*/, const at::Tensor& /*cum_seq_k*/, c10::SymInt /*max_q*/, c10::SymInt /*max_k*/,
    double dropout_p, bool is_causal, const at::Tensor& /*seed*/, const at::Tensor& /*offset*/,
    std::optional<double> scale) {
  TORCH_CHECK(!(mask[3] && bias.defined()), "the fused attention of device npu gives no gradient of a mask");
  LibraryCall call("aten::_scaled_dot_product_fused_attention_overrideable_backward", query);
  const at::Tensor q = call.library(query), k = call.library(key), v = call.library(value);
  const at::Tensor grad = call.library(grad_out), result = call.library(out), sums = call.library(logsumexp);
  const at::Tensor added = added_to_scores(call.library(bias), q);
  const int64_t rows = query.size(2), keys = key.size(2);
  // Of random numbers, which no dropout draws.
  const auto counter = at::TensorOptions().dtype(at::kLong).device(q.device());
  const at::Tensor unused = at::empty({}, counter);
  at::Tensor grad_q, grad_k, grad_v;
  // Some of cuDNN's kernels have no backward pass: PyTorch's rules ask whether there is one.
  switch (kernel_for(q.detach().requires_grad_(), k, v, added, is_causal, scale)) {
    case at::SDPBackend::cudnn_attention:
      std::tie(grad_q, grad_k, grad_v) = at::_scaled_dot_product_cudnn_attention_backward(
          grad, q, k, v, result, sums.unsqueeze(3), unused, unused, added, at::Tensor(), at::Tensor(), rows, keys,
          dropout_p, is_causal, scale);
      break;
    case at::SDPBackend::flash_attention:
      std::tie(grad_q, grad_k, grad_v) = at::_scaled_dot_product_flash_attention_backward(
          grad, q, k, v, result, sums, at::Tensor(), at::Tensor(), rows, keys, dropout_p, is_causal,
          at::zeros({2}, counter), unused, scale);
      break;
    default: {
      const int64_t padded = (rows + kRowsOfSums - 1) / kRowsOfSums * kRowsOfSums;
      auto results = at::_scaled_dot_product_efficient_attention_backward(
          grad, q, for_all_heads(k, q), for_all_heads(v, q), for_every_score(added, q, k).value_or(at::Tensor()),
          result, at::constant_pad_nd(sums, {0, padded - rows}, INFINITY), at::zeros({}, counter),
          at::zeros({}, counter), dropout_p, {true, true, true, false}, is_causal, scale);
      grad_q = std::get<0>(results);
      grad_k = of_shared_heads(std::get<1>(results), k);
      grad_v = of_shared_heads(std::get<2>(results), v);
    }
  }
  return {call.npu(with_layout_of(grad_q, q)), call.npu(with_layout_of(grad_k, k)), call.npu(with_layout_of(grad_v, v)),
          at::Tensor()};
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("_fused_sdp_choice", fused_sdp_choice);
  m.impl("_scaled_dot_product_fused_attention_overrideable", library_kernel<&attention>());
  m.impl("_scaled_dot_product_fused_attention_overrideable_backward", library_kernel<&attention_backward>());
}

}  // namespace
}  // namespace inductor_npu

namespace at::native {
REGISTER_PRIVATEUSE1_DISPATCH(_fused_sdp_choice_stub, &inductor_npu::fused_sdp_choice)
}  // namespace at::native
