// The weights of a package, on the device.
#pragma once

#include <ATen/core/Tensor.h>

#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "package/json.h"

namespace inductor_npu::package {

class Weights {
 public:
  // `list`: the manifest's description; `file`: the bytes of a safetensors file. Throws PackageError.
  Weights(const Json& list, std::string_view file, c10::Device device);

  const std::vector<at::Tensor>& tensors() const { return tensors_; }
  // By each of their names.
  std::unordered_map<std::string, at::Tensor> by_name() const;

  // Overwrites weights in place. Throws c10::Error, with nothing changed, where names, types or shapes do not fit.
  void update(const std::unordered_map<std::string, at::Tensor>& values);

 private:
  std::vector<at::Tensor> tensors_;
  std::unordered_map<std::string, size_t> numbers_;
};

}  // namespace inductor_npu::package
