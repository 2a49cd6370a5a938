// What an instruction of a program takes: a constant, a register, a weight, or a list of such.
#pragma once

#include <ATen/core/ivalue.h>
#include <ATen/core/jit_type.h>

#include <memory>
#include <vector>

#include "package/json.h"

namespace inductor_npu::package {

// A run in progress.
struct Frame {
  std::vector<c10::IValue> registers;
  const std::vector<at::Tensor>& weights;
};

// How many of each there are, and where the program runs: what operands are checked against when they are read.
struct Scope {
  size_t registers, weights;
  c10::Device device;
};

class Operand {
 public:
  // `type`: what it has to be, as the schema of an operator says; null: an integer, number or boolean, as written.
  // Throws PackageError.
  static Operand read(const Json& json, const Scope& scope, const c10::Type* type = nullptr);
  static Operand constant(c10::IValue value);

  // Where it is a register: which one, else -1.
  int register_number() const { return kind_ == Kind::kRegister ? index_ : -1; }

  c10::IValue value(const Frame& frame) const;
  int64_t integer(const Frame& frame) const;

 private:
  enum class Kind { kConstant, kRegister, kWeight, kList };

  static Operand reference(Kind kind, const Json& number, size_t count);
  static Operand list(const Json& json, const Scope& scope, const c10::TypePtr& element);

  Kind kind_ = Kind::kConstant;
  int index_ = -1;
  c10::IValue constant_;
  c10::TypePtr element_;  // of a list
  std::vector<Operand> elements_;
};

std::vector<Operand> read_operands(const Json& list, const Scope& scope);
std::vector<int64_t> integers(const std::vector<Operand>& operands, const Frame& frame);

}  // namespace inductor_npu::package
