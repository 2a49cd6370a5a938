// Operators for which PyTorch asks a device other than the CPU to bring its own kernel, built from the CPU's: those that
// are not like those of every library (ops_convolution.cpp).
#include <ATen/Context.h>
#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/native/DispatchStub.h>
#include <ATen/native/transformers/attention.h>
#include <ATen/native/transformers/sdp_utils_cpp.h>
#include <torch/library.h>

#include <cmath>

#include "attention_heads.h"
#include "fallback.h"
#include "library_call.h"
#include "runtime.h"

namespace inductor_npu {
namespace {

// --- Attention -------------------------------------------------------------------------------------------------------

// Whether the CPU's flash kernel takes these inputs, after `for_all_heads`. Looks at sizes only: the tensors may be fake.
bool flash_takes(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value, double dropout_p,
                 bool enable_gqa) {
  const at::ScalarType dtype = query.scalar_type();
  const bool dtype_fits = dtype == at::kFloat || dtype == at::kHalf || dtype == at::kBFloat16;
  if (!dtype_fits || key.scalar_type() != dtype || value.scalar_type() != dtype || dropout_p != 0.0) {
    return false;
  }
  if (query.is_nested() || key.is_nested() || value.is_nested()) {
    return false;
  }
  if (query.dim() != 4 || key.dim() != 4 || value.dim() != 4) {
    return false;
  }
  const auto query_size = query.sym_sizes(), key_size = key.sym_sizes(), value_size = value.sym_sizes();
  const bool heads_fit = key_size[1] == value_size[1] && key_size[1] != 0 &&
                         (enable_gqa ? query_size[1] % key_size[1] == 0 : query_size[1] == key_size[1]);
  const bool sizes_fit = query_size[0] == key_size[0] && query_size[0] == value_size[0] && heads_fit &&
                         query_size[3] == key_size[3] && query_size[3] == value_size[3] && query_size[2] != 0 &&
                         key_size[2] != 0 && query_size[0] != 0 && query_size[1] != 0 && query_size[3] != 0;
  const bool strides_fit = query.sym_stride(3) == 1 && key.sym_stride(3) == 1 && value.sym_stride(3) == 1;
  return sizes_fit && strides_fit;
}

int64_t fused_sdp_choice(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
                         const std::optional<at::Tensor>& /*mask*/, double dropout_p, bool is_causal,
                         std::optional<double> scale, bool enable_gqa) {
  const at::Context& context = at::globalContext();
  const bool allowed = context.userEnabledOverrideableSDP() && context.userEnabledFlashSDP();
  const bool flash = allowed && flash_takes(query, key, value, dropout_p, enable_gqa);
  TORCH_CHECK(flash || context.userEnabledMathSDP(),
              "No available kernel for scaled_dot_product_attention on device npu: the fused one does not take these "
              "inputs (or is switched off) and the math one is switched off");
  return static_cast<int64_t>(flash ? at::SDPBackend::overrideable : at::SDPBackend::math);
}

// A mask of the CPU's flash kernel, which takes two axes or four.
std::optional<at::Tensor> mask_of_four_axes(const std::optional<at::Tensor>& mask) {
  if (!mask.has_value() || !mask->defined()) {
    return std::nullopt;
  }
  at::Tensor whole = *mask;
  while (whole.dim() < 4) {
    whole = whole.unsqueeze(0);
  }
  return whole;
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
  const at::Tensor query_cpu = call.library(query);
  const std::optional<at::Tensor> bias_cpu =
      bias.has_value() ? std::optional<at::Tensor>(call.library(bias)) : std::nullopt;
  auto [output, logsumexp] = at::_scaled_dot_product_flash_attention_for_cpu(
      query_cpu, for_all_heads(call.library(key), query), for_all_heads(call.library(value), query), dropout_p, is_causal,
      mask_of_four_axes(bias_cpu), scale);
  at::Tensor seed = at::zeros({}, at::kLong), offset = at::zeros({}, at::kLong);
  return {call.npu(with_layout_of(output, query_cpu)),
          call.npu(logsumexp.contiguous()),
          at::Tensor(),
          at::Tensor(),
          query.size(2),
          key.size(2),
          call.npu(std::move(seed)),
          call.npu(std::move(offset)),
          at::Tensor()};
}

// The gradient of what is added to scores, which the CPU's flash kernel does not give; all tensors are the CPU's. `log`:
// the logarithms of the sums of exponentials, minus infinity for a query without a score.
at::Tensor bias_gradient(const at::Tensor& grad_out, const at::Tensor& query, const at::Tensor& key,
                         const at::Tensor& value, const at::Tensor& bias, const at::Tensor& out, const at::Tensor& log,
                         double scale) {
  const auto wide = [](const at::Tensor& tensor) { return tensor.to(at::kFloat); };
  const at::Tensor of_row = wide(log).unsqueeze(-1);
  const at::Tensor scores = at::matmul(wide(query), wide(key).transpose(2, 3)) * scale + wide(bias);
  const at::Tensor weights = at::exp(scores - of_row).masked_fill(at::isneginf(of_row), 0);
  const at::Tensor of_weights = at::matmul(wide(grad_out), wide(value).transpose(2, 3));
  const at::Tensor delta = (wide(grad_out) * wide(out)).sum(-1, /*keepdim=*/true);
  return (weights * (of_weights - delta)).sum_to_size(bias.sizes()).to(bias.scalar_type());
}

std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor> attention_backward(
    const at::Tensor& grad_out, const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
    const at::Tensor& bias, std::array<bool, 4> mask, const at::Tensor& out, const at::Tensor& logsumexp,
    const at::Tensor& cum_seq_q, const at::Tensor& cum_seq_k, c10::SymInt max_q, c10::SymInt max_k, double dropout_p,
    bool is_causal, const at::Tensor& seed, const at::Tensor& offset, std::optional<double> scale) {
  TORCH_CHECK(!(mask[3] && bias.defined() && is_causal),
              "the fused attention of device npu gives no gradient of a mask beside is_causal");
  LibraryCall call("aten::_scaled_dot_product_fused_attention_overrideable_backward", query);
  const at::Tensor q = call.library(query), k = call.library(key), v = call.library(value);
  const std::optional<at::Tensor> bias_cpu = bias.defined() ? std::optional<at::Tensor>(call.library(bias)) : std::nullopt;
  const at::Tensor grad = call.library(grad_out), result = call.library(out), log = call.library(logsumexp);
  const at::Tensor all_k = for_all_heads(k, q), all_v = for_all_heads(v, q);
  auto [grad_q, grad_k, grad_v] = at::_scaled_dot_product_flash_attention_for_cpu_backward(
      grad, q, all_k, all_v, result, log, dropout_p, is_causal, mask_of_four_axes(bias_cpu), scale);
  at::Tensor grad_bias;
  if (mask[3] && bias_cpu.has_value()) {
    const double factor = scale.value_or(1.0 / std::sqrt(static_cast<double>(q.size(3))));
    grad_bias = call.npu(bias_gradient(grad, q, all_k, all_v, *bias_cpu, result, log, factor));
  }
  return {call.npu(with_layout_of(grad_q, q)), call.npu(with_layout_of(of_shared_heads(grad_k, k), k)),
          call.npu(with_layout_of(of_shared_heads(grad_v, v), v)), grad_bias};
}

// What attention_backward gives, to those who trace: PyTorch before 2.13 does not say.
std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor> attention_backward_meta(
    const at::Tensor& /*grad_out*/, const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
    const at::Tensor& bias, std::array<bool, 4> mask, const at::Tensor& /*out*/,
    const at::Tensor& /*logsumexp*/, const at::Tensor& /*cum_seq_q*/, const at::Tensor& /*cum_seq_k*/,
    c10::SymInt /*max_q*/, c10::SymInt /*max_k*/, double /*dropout_p*/, bool /*is_causal*/,
    const at::Tensor& /*seed*/, const at::Tensor& /*offset*/, std::optional<double> /*scale*/) {
  const at::Tensor grad_bias = mask[3] && bias.defined() ? at::empty_like(bias) : at::Tensor();
  return {at::empty_like(query), at::empty_like(key), at::empty_like(value), grad_bias};
}

// --- Sums ------------------------------------------------------------------------------------------------------------

// The CPU's kernel refuses complex numbers, which other devices add up.
at::Tensor nansum(const at::Tensor& self, at::OptionalIntArrayRef dim, bool keepdim,
                  std::optional<c10::ScalarType> dtype) {
  if (self.is_complex()) {
    const at::AutoDispatchBelowADInplaceOrView guard;
    return at::where(at::isnan(self), at::zeros({}, self.options()), self).sum(dim, keepdim, dtype);
  }
  LibraryCall call("aten::nansum", self);
  return call.npu(at::nansum(call.library(self), dim, keepdim, dtype));
}

// --- Recurrent cells -------------------------------------------------------------------------------------------------

at::Tensor with_bias(at::Tensor gates, const at::Tensor& bias) {
  return bias.defined() ? gates.add(bias) : gates;
}

// Gates in the order input, forget, cell, output; the workspace keeps them activated.
std::tuple<at::Tensor, at::Tensor, at::Tensor> lstm_cell(const at::Tensor& input_gates, const at::Tensor& hidden_gates,
                                                         const at::Tensor& cx,
                                                         const std::optional<at::Tensor>& input_bias,
                                                         const std::optional<at::Tensor>& hidden_bias) {
  LibraryCall call("aten::_thnn_fused_lstm_cell", cx);
  const at::Tensor gates = with_bias(with_bias(call.library(input_gates).add(call.library(hidden_gates)), call.library(input_bias)),
                                     call.library(hidden_bias));
  at::Tensor workspace = at::empty_like(gates);
  auto from = gates.chunk(4, 1), to = workspace.chunk(4, 1);
  at::sigmoid_out(to[0], from[0]);
  at::sigmoid_out(to[1], from[1]);
  at::tanh_out(to[2], from[2]);
  at::sigmoid_out(to[3], from[3]);
  at::Tensor cy = to[1].mul(call.library(cx)).add_(to[0].mul(to[2]));
  at::Tensor hy = to[3].mul(cy.tanh());
  from.clear();
  to.clear();
  return {call.npu(std::move(hy)), call.npu(std::move(cy)), call.npu(std::move(workspace))};
}

std::tuple<at::Tensor, at::Tensor, at::Tensor> lstm_cell_backward(const std::optional<at::Tensor>& grad_hy,
                                                                  const std::optional<at::Tensor>& grad_cy,
                                                                  const at::Tensor& cx, const at::Tensor& cy,
                                                                  const at::Tensor& workspace, bool has_bias) {
  LibraryCall call("aten::_thnn_fused_lstm_cell_backward_impl", cx);
  at::Tensor from_hy = call.library(grad_hy), from_cy = call.library(grad_cy);
  if (!from_hy.defined() && !from_cy.defined()) {
    return {};
  }
  const at::Tensor cell = call.library(cy);
  from_hy = from_hy.defined() ? from_hy : at::zeros_like(cell);
  from_cy = from_cy.defined() ? from_cy : at::zeros_like(cell);
  auto gates = call.library(workspace).chunk(4, 1);
  const at::Tensor &input = gates[0], &forget = gates[1], &candidate = gates[2], &output = gates[3];
  const at::Tensor tanh_cell = cell.tanh();
  const at::Tensor grad_cell = at::tanh_backward(from_hy.mul(output), tanh_cell).add_(from_cy);
  at::Tensor grad_gates = at::cat(
      {at::sigmoid_backward(grad_cell.mul(candidate), input), at::sigmoid_backward(grad_cell.mul(call.library(cx)), forget),
       at::tanh_backward(grad_cell.mul(input), candidate), at::sigmoid_backward(from_hy.mul(tanh_cell), output)},
      1);
  at::Tensor grad_cx = grad_cell.mul(forget);
  at::Tensor grad_bias = has_bias ? grad_gates.sum(0) : at::Tensor();
  return {call.npu(std::move(grad_gates)), call.npu(std::move(grad_cx)), call.npu(std::move(grad_bias))};
}

// Gates in the order reset, update, new. The workspace keeps reset, update, new, hx and the hidden part of new.
std::tuple<at::Tensor, at::Tensor> gru_cell(const at::Tensor& input_gates, const at::Tensor& hidden_gates,
                                            const at::Tensor& hx, const std::optional<at::Tensor>& input_bias,
                                            const std::optional<at::Tensor>& hidden_bias) {
  LibraryCall call("aten::_thnn_fused_gru_cell", hx);
  const auto from_input = with_bias(call.library(input_gates), call.library(input_bias)).chunk(3, 1);
  const auto from_hidden = with_bias(call.library(hidden_gates), call.library(hidden_bias)).chunk(3, 1);
  const at::Tensor state = call.library(hx);
  const at::Tensor reset = from_input[0].add(from_hidden[0]).sigmoid_();
  const at::Tensor update = from_input[1].add(from_hidden[1]).sigmoid_();
  const at::Tensor candidate = from_input[2].add(reset.mul(from_hidden[2])).tanh_();
  at::Tensor hy = state.sub(candidate).mul_(update).add_(candidate);
  at::Tensor workspace = at::cat({reset, update, candidate, state, from_hidden[2]}, 1);
  return {call.npu(std::move(hy)), call.npu(std::move(workspace))};
}

std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor, at::Tensor> gru_cell_backward(const at::Tensor& grad_hy,
                                                                                         const at::Tensor& workspace,
                                                                                         bool has_bias) {
  LibraryCall call("aten::_thnn_fused_gru_cell_backward", workspace);
  const at::Tensor grad = call.library(grad_hy);
  const auto kept = call.library(workspace).chunk(5, 1);
  const at::Tensor &reset = kept[0], &update = kept[1], &candidate = kept[2], &state = kept[3], &hidden = kept[4];
  const at::Tensor grad_update = at::sigmoid_backward(grad.mul(state.sub(candidate)), update);
  const at::Tensor grad_new = at::tanh_backward(grad.sub(grad.mul(update)), candidate);
  const at::Tensor grad_reset = at::sigmoid_backward(grad_new.mul(hidden), reset);
  at::Tensor grad_input_gates = at::cat({grad_reset, grad_update, grad_new}, 1);
  at::Tensor grad_hidden_gates = at::cat({grad_reset, grad_update, grad_new.mul(reset)}, 1);
  at::Tensor grad_hx = grad.mul(update);
  at::Tensor grad_input_bias = has_bias ? grad_input_gates.sum(0) : at::Tensor();
  at::Tensor grad_hidden_bias = has_bias ? grad_hidden_gates.sum(0) : at::Tensor();
  return {call.npu(std::move(grad_input_gates)), call.npu(std::move(grad_hidden_gates)), call.npu(std::move(grad_hx)),
          call.npu(std::move(grad_input_bias)), call.npu(std::move(grad_hidden_bias))};
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("_fused_sdp_choice", fused_sdp_choice);
  m.impl("_scaled_dot_product_fused_attention_overrideable", library_kernel<&attention>());
  m.impl("_scaled_dot_product_fused_attention_overrideable_backward", library_kernel<&attention_backward>());
  m.impl("nansum", library_kernel<&nansum>());
  m.impl("_thnn_fused_lstm_cell", library_kernel<&lstm_cell>());
  m.impl("_thnn_fused_lstm_cell_backward_impl", library_kernel<&lstm_cell_backward>());
  m.impl("_thnn_fused_gru_cell", library_kernel<&gru_cell>());
  m.impl("_thnn_fused_gru_cell_backward", library_kernel<&gru_cell_backward>());
}

// --- Shapes ----------------------------------------------------------------------------------------------------------

TORCH_LIBRARY_IMPL(aten, Meta, m) {
  add_shapes(m, "_scaled_dot_product_fused_attention_overrideable_backward",
             torch::CppFunction(TORCH_FN(attention_backward_meta)));
}

}  // namespace
}  // namespace inductor_npu

namespace at::native {
REGISTER_PRIVATEUSE1_DISPATCH(_fused_sdp_choice_stub, &inductor_npu::fused_sdp_choice)
}  // namespace at::native
