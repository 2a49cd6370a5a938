// Convolutions, for which PyTorch asks a device from outside to bring kernels of its own.
#include <ATen/Functions.h>
#include <torch/library.h>

#include <utility>

#include "library_call.h"

namespace inductor_npu {
namespace {

// Contiguous, whatever the layout of the inputs, unless compiled code knows better: PyTorch's shape inference
// (_conv_determine_backend_memory_format for an overriding backend) promises that. The CPU's kernel answers channels-last
// inputs with channels-last outputs.
at::Tensor as_promised(at::Tensor result) {
  return library::kKeepsLayouts || !result.defined() ? std::move(result) : result.contiguous();
}

at::Tensor convolution(const at::Tensor& input, const at::Tensor& weight, const std::optional<at::Tensor>& bias,
                       c10::IntArrayRef stride, c10::IntArrayRef padding, c10::IntArrayRef dilation, bool transposed,
                       c10::IntArrayRef output_padding, int64_t groups) {
  LibraryCall call("aten::convolution_overrideable", input);
  return call.npu(as_promised(at::convolution(call.library(input), call.library(weight), call.library(bias), stride,
                                              padding, dilation, transposed, output_padding, groups)));
}

std::tuple<at::Tensor, at::Tensor, at::Tensor> convolution_backward(const at::Tensor& grad, const at::Tensor& input,
                                                                    const at::Tensor& weight, c10::IntArrayRef stride,
                                                                    c10::IntArrayRef padding, c10::IntArrayRef dilation,
                                                                    bool transposed, c10::IntArrayRef output_padding,
                                                                    int64_t groups, std::array<bool, 3> mask) {
  LibraryCall call("aten::convolution_backward_overrideable", input);
  const int64_t channels = grad.size(input.dim() == weight.dim() - 1 ? 0 : 1);
  auto [grad_input, grad_weight, grad_bias] =
      at::convolution_backward(call.library(grad), call.library(input), call.library(weight), at::OptionalIntArrayRef({channels}),
                               stride, padding, dilation, transposed, output_padding, groups, mask);
  return {call.npu(as_promised(std::move(grad_input))), call.npu(as_promised(std::move(grad_weight))),
          call.npu(as_promised(std::move(grad_bias)))};
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("convolution_overrideable", library_kernel<&convolution>());
  m.impl("convolution_backward_overrideable", library_kernel<&convolution_backward>());
}

at::Tensor convolution_meta(const at::Tensor& input, const at::Tensor& weight, const std::optional<at::Tensor>& bias,
                            c10::IntArrayRef stride, c10::IntArrayRef padding, c10::IntArrayRef dilation,
                            bool transposed, c10::IntArrayRef output_padding, int64_t groups) {
  const at::Tensor output =
      at::convolution(input, weight, bias, stride, padding, dilation, transposed, output_padding, groups);
  return at::empty(output.sizes(), output.options());
}

std::tuple<at::Tensor, at::Tensor, at::Tensor> convolution_backward_meta(
    const at::Tensor& grad, const at::Tensor& input, const at::Tensor& weight, c10::IntArrayRef /*stride*/,
    c10::IntArrayRef /*padding*/, c10::IntArrayRef /*dilation*/, bool /*transposed*/,
    c10::IntArrayRef /*output_padding*/, int64_t /*groups*/, std::array<bool, 3> mask) {
  const auto empty = [&](bool wanted, c10::IntArrayRef sizes) {
    return wanted ? at::empty(sizes, grad.options()) : at::Tensor();
  };
  const int64_t channels = grad.size(input.dim() == weight.dim() - 1 ? 0 : 1);
  return {empty(mask[0], input.sizes()), empty(mask[1], weight.sizes()), empty(mask[2], {channels})};
}

TORCH_LIBRARY_IMPL(aten, Meta, m) {
  add_shapes(m, "convolution_overrideable", torch::CppFunction(TORCH_FN(convolution_meta)));
  add_shapes(m, "convolution_backward_overrideable", torch::CppFunction(TORCH_FN(convolution_backward_meta)));
}

}  // namespace
}  // namespace inductor_npu
