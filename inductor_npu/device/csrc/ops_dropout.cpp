// Dropout, with the device's own random numbers: the library's kernel would draw from the library's default generator.
#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>
#include <torch/library.h>

#include "generator.h"
#include "library_call.h"

namespace inductor_npu {
namespace {

std::tuple<at::Tensor, at::Tensor> native_dropout(const at::Tensor& input, double p, std::optional<bool> train) {
  LibraryCall call("aten::native_dropout", input);
  const at::Tensor values = call.library(input);
  at::Tensor mask = at::empty_like(values, values.options().dtype(at::kBool));
  if (train.has_value() && !*train) {
    mask.fill_(true);
    return {call.npu(values.clone()), call.npu(std::move(mask))};
  }
  mask.bernoulli_(1.0 - p, draw_from(default_generator(input.device().index())));
  at::Tensor output = values.mul(mask).mul_(p == 1.0 ? 0.0 : 1.0 / (1.0 - p));
  return {call.npu(std::move(output)), call.npu(std::move(mask))};
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("native_dropout", library_kernel<&native_dropout>());
}

}  // namespace
}  // namespace inductor_npu
