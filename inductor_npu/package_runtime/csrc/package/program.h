// A program of a package: a flat list of instructions over registers.
#pragma once

#include <memory>
#include <vector>

#include "package/operand.h"
#include "package/platform.h"

namespace inductor_npu::package {

// What an instruction needs to be made.
struct Place {
  Scope scope;
  const Kernels& kernels;
};

class Instruction {
 public:
  virtual ~Instruction() = default;
  virtual void run(Frame& frame) const = 0;

  std::vector<int> last_uses;  // registers that are empty afterwards
};

// Throws PackageError.
std::unique_ptr<Instruction> read_instruction(const Json& json, const Place& place);

class Program {
 public:
  // Throws PackageError where the program is not one, or needs an operator that this process does not have.
  Program(const Json& json, size_t weights, c10::Device device, const Kernels& kernels);

  // Registers 0, 1, ... are the inputs.
  std::vector<c10::IValue> run(std::vector<c10::IValue> inputs, const std::vector<at::Tensor>& weights) const;

 private:
  size_t registers_;
  std::vector<std::unique_ptr<Instruction>> instructions_;
  std::vector<Operand> outputs_;
};

}  // namespace inductor_npu::package
