// Reads weights from the safetensors format: 8 bytes of length, a JSON header, the tensors' bytes.
#include "package/weights.h"

#include <ATen/Functions.h>
#include <c10/util/Exception.h>
#include <inductor_npu/package.h>

#include <cstring>

#include "package/types.h"

namespace inductor_npu::package {
namespace {

constexpr size_t kLengthBytes = 8;

struct WeightsFile {
  Json header;
  std::string_view data;
};

WeightsFile read_header(std::string_view file) {
  uint64_t length = 0;
  if (file.size() >= kLengthBytes) {
    std::memcpy(&length, file.data(), kLengthBytes);
  }
  if (file.size() < kLengthBytes || length > file.size() - kLengthBytes) {
    throw PackageError("its weights are truncated");
  }
  return {Json::parse(file.substr(kLengthBytes, length)), file.substr(kLengthBytes + length)};
}

// The tensor that the manifest describes as `facts`.
at::Tensor load(const Json& facts, const WeightsFile& file, c10::Device device) {
  const std::vector<int64_t> sizes = facts.at("size").integers(), strides = facts.at("stride").integers();
  const c10::ScalarType type = scalar_type(facts.at("dtype").string());
  const std::string name = facts.at("names").strings().front();
  const std::vector<int64_t> range = file.header.at(name).at("data_offsets").integers();
  const auto host = at::TensorOptions().dtype(type).device(at::kCPU);
  at::Tensor values = at::empty(sizes, host);
  if (range.size() != 2 || range[0] < 0 || range[1] < range[0] || static_cast<size_t>(range[1]) > file.data.size() ||
      static_cast<size_t>(range[1] - range[0]) != values.nbytes()) {
    throw PackageError("its weight " + name + " does not have the size that the manifest says");
  }
  if (values.nbytes() > 0) {
    std::memcpy(values.mutable_data_ptr(), file.data.data() + range[0], values.nbytes());
  }
  return at::empty_strided(sizes, strides, at::TensorOptions().dtype(type).device(device)).copy_(values);
}

}  // namespace

Weights::Weights(const Json& list, std::string_view file, c10::Device device) {
  if (list.array().empty()) {
    return;
  }
  const WeightsFile parts = read_header(file);
  for (const Json& facts : list.array()) {
    for (const std::string& name : facts.at("names").strings()) {
      numbers_.emplace(name, tensors_.size());
    }
    tensors_.push_back(load(facts, parts, device));
  }
}

std::unordered_map<std::string, at::Tensor> Weights::by_name() const {
  std::unordered_map<std::string, at::Tensor> result;
  for (const auto& [name, number] : numbers_) {
    result.emplace(name, tensors_[number]);
  }
  return result;
}

void Weights::update(const std::unordered_map<std::string, at::Tensor>& values) {
  for (const auto& [name, value] : values) {
    const auto entry = numbers_.find(name);
    TORCH_CHECK_VALUE(entry != numbers_.end(), "this package has no weight ", name);
    const at::Tensor& weight = tensors_[entry->second];
    TORCH_CHECK_VALUE(value.sizes() == weight.sizes() && value.scalar_type() == weight.scalar_type(), "weight ", name,
                      " is ", name_of(weight.scalar_type()), " of sizes ", weight.sizes(), ", and cannot become ",
                      name_of(value.scalar_type()), " of sizes ", value.sizes());
  }
  for (const auto& [name, value] : values) {
    tensors_[numbers_.at(name)].copy_(value);
  }
}

}  // namespace inductor_npu::package
