// Checks inputs, and makes them what kernels were compiled for.
#include "package/signature.h"

#include <ATen/Functions.h>
#include <c10/util/Exception.h>
#include <inductor_npu/package.h>

#include <algorithm>

#include "package/types.h"

namespace inductor_npu::package {
namespace {

constexpr uintptr_t kAlignment = 16;  // what Triton's front end is told of every pointer

Input read_input(const Json& json, const std::vector<Symbol>& symbols) {
  Input input;
  input.name = json.at("name").string();
  input.type = scalar_type(json.at("dtype").string());
  input.written = json.at("written").boolean();
  for (const Json& size : json.at("size").array()) {
    if (size.is_integer()) {
      input.sizes.push_back({-1, 1, size.integer()});
      continue;
    }
    const std::string& name = size.at("symbol").string();
    const auto symbol =
        std::find_if(symbols.begin(), symbols.end(), [&](const Symbol& known) { return known.name == name; });
    if (symbol == symbols.end()) {
      throw PackageError("its signature names a size that it does not describe");
    }
    input.sizes.push_back(
        {static_cast<int>(symbol - symbols.begin()), size.at("times").integer(), size.at("plus").integer()});
  }
  if (const Json* order = json.find("order")) {
    input.order = order->integers();
  } else {
    input.strides = json.at("stride").integers();
  }
  const std::vector<int64_t>& axes = input.order.empty() ? input.strides : input.order;
  if (axes.size() != input.sizes.size() ||
      std::any_of(input.order.begin(), input.order.end(),
                  [&](int64_t axis) { return axis < 0 || static_cast<size_t>(axis) >= axes.size(); })) {
    throw PackageError("its signature has an input whose strides do not fit its sizes");
  }
  return input;
}

std::vector<int64_t> strides_of(const Input& input, at::IntArrayRef sizes) {
  if (!input.strides.empty()) {
    return input.strides;
  }
  std::vector<int64_t> strides(sizes.size());
  int64_t next = 1;
  for (size_t i = input.order.size(); i-- > 0;) {
    const int64_t axis = input.order[i];
    strides[axis] = next;
    next *= std::max<int64_t>(sizes[axis], 1);
  }
  return strides;
}

bool has_strides(const at::Tensor& tensor, const std::vector<int64_t>& strides) {
  for (int64_t axis = 0; axis < tensor.dim(); ++axis) {
    if (tensor.size(axis) > 1 && tensor.stride(axis) != strides[axis]) {
      return false;
    }
  }
  return true;
}

std::string bounds_of(const Symbol& symbol) {
  return std::to_string(symbol.least) + (symbol.most.has_value() ? " to " + std::to_string(*symbol.most) : " or more");
}

}  // namespace

Signature::Signature(const Json& json) {
  for (const Json& symbol : json.at("symbols").array()) {
    const Json& most = symbol.at("most");
    symbols_.push_back({symbol.at("name").string(), symbol.at("least").integer(),
                        most.is_null() ? std::nullopt : std::optional<int64_t>(most.integer())});
  }
  for (const Json& input : json.at("inputs").array()) {
    inputs_.push_back(read_input(input, symbols_));
  }
}

std::vector<c10::IValue> Signature::take(const std::vector<at::Tensor>& tensors, c10::Device device) const {
  TORCH_CHECK_VALUE(tensors.size() == inputs_.size(), "this package takes ", inputs_.size(), " tensors, not ",
                    tensors.size());
  std::vector<std::optional<int64_t>> values(symbols_.size());
  std::vector<c10::IValue> taken;
  taken.reserve(tensors.size());
  for (size_t i = 0; i < tensors.size(); ++i) {
    const Input& input = inputs_[i];
    const at::Tensor& tensor = tensors[i];
    TORCH_CHECK_VALUE(tensor.defined(), "input ", input.name, " is no tensor");
    TORCH_CHECK_VALUE(tensor.device() == device, "input ", input.name, " is on ", tensor.device(),
                      ", and this package was loaded onto ", device, ": move it there, with .to(\"", device, "\")");
    TORCH_CHECK_VALUE(tensor.layout() == at::kStrided, "input ", input.name, " is a tensor of layout ",
                      tensor.layout(), ", and has to be strided");
    TORCH_CHECK_VALUE(tensor.scalar_type() == input.type, "input ", input.name, " is of type ",
                      name_of(tensor.scalar_type()), ", and has to be of ", name_of(input.type));
    check_sizes(input, tensor, values);
    const std::vector<int64_t> strides = strides_of(input, tensor.sizes());
    const bool aligned = reinterpret_cast<uintptr_t>(tensor.const_data_ptr()) % kAlignment == 0;
    if (aligned && has_strides(tensor, strides)) {
      taken.emplace_back(tensor);
    } else {
      taken.emplace_back(at::empty_strided(tensor.sizes(), strides, tensor.options()).copy_(tensor));
    }
  }
  return taken;
}

void Signature::check_sizes(const Input& input, const at::Tensor& tensor,
                            std::vector<std::optional<int64_t>>& values) const {
  TORCH_CHECK_VALUE(static_cast<size_t>(tensor.dim()) == input.sizes.size(), "input ", input.name, " has ",
                    tensor.dim(), " dimensions, and has to have ", input.sizes.size());
  for (int64_t axis = 0; axis < tensor.dim(); ++axis) {
    const Size& size = input.sizes[axis];
    const int64_t actual = tensor.size(axis);
    if (size.symbol < 0) {
      TORCH_CHECK_VALUE(actual == size.plus, "input ", input.name, " has size ", actual, " in dimension ", axis,
                        ", and has to have ", size.plus, ": the model was exported for that size");
      continue;
    }
    const Symbol& symbol = symbols_[size.symbol];
    TORCH_CHECK_VALUE((actual - size.plus) % size.times == 0, "input ", input.name, " has size ", actual,
                      " in dimension ", axis, ", which is not ", size.times, " * ", symbol.name, " + ", size.plus);
    const int64_t value = (actual - size.plus) / size.times;
    TORCH_CHECK_VALUE(value >= symbol.least && (!symbol.most.has_value() || value <= *symbol.most), "input ",
                      input.name, " has size ", actual, " in dimension ", axis, ": the model was exported for ",
                      bounds_of(symbol));
    std::optional<int64_t>& known = values[size.symbol];
    TORCH_CHECK_VALUE(!known.has_value() || *known == value, "input ", input.name, " has size ", actual,
                      " in dimension ", axis, ", and other inputs say that it has to be ",
                      known.value_or(0) * size.times + size.plus);
    known = value;
  }
}

void Signature::give_back(const std::vector<at::Tensor>& tensors, const std::vector<at::Tensor>& taken) const {
  for (size_t i = 0; i < inputs_.size(); ++i) {
    if (inputs_[i].written && !tensors[i].is_same(taken[i])) {
      tensors[i].copy_(taken[i]);
    }
  }
}

}  // namespace inductor_npu::package
