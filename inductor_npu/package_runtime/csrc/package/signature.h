// What a package's inputs have to be.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/ivalue.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "package/json.h"

namespace inductor_npu::package {

// A size: `times` * symbol + `plus`; symbol -1: `plus`.
struct Size {
  int symbol = -1;
  int64_t times = 1, plus = 0;
};

// A size that varies, and its bounds, both included; no `most`: there is none.
struct Symbol {
  std::string name;
  int64_t least = 0;
  std::optional<int64_t> most;
};

struct Input {
  std::string name;
  c10::ScalarType type;
  std::vector<Size> sizes;
  std::vector<int64_t> order;    // dimensions from the largest stride to the smallest, of a tensor without gaps
  std::vector<int64_t> strides;  // of one with gaps
  bool written = false;          // the program writes it
};

class Signature {
 public:
  // Throws PackageError.
  explicit Signature(const Json& json);

  // The program's inputs for `tensors`: what has other strides, or memory that kernels cannot take, is copied. Throws
  // c10::Error where the tensors do not fit.
  std::vector<c10::IValue> take(const std::vector<at::Tensor>& tensors, c10::Device device) const;

  // Carries what the program wrote into copies that `take` made back to the tensors.
  void give_back(const std::vector<at::Tensor>& tensors, const std::vector<at::Tensor>& taken) const;

  const std::vector<Input>& inputs() const { return inputs_; }

 private:
  void check_sizes(const Input& input, const at::Tensor& tensor, std::vector<std::optional<int64_t>>& values) const;

  std::vector<Symbol> symbols_;
  std::vector<Input> inputs_;
};

}  // namespace inductor_npu::package
