// Runs programs.
#include "package/program.h"

#include <inductor_npu/package.h>

namespace inductor_npu::package {

Program::Program(const Json& json, size_t weights, c10::Device device, const Kernels& kernels)
    : registers_(static_cast<size_t>(json.at("registers").integer())) {
  const Place place{{registers_, weights, device}, kernels};
  for (const Json& instruction : json.at("instructions").array()) {
    instructions_.push_back(read_instruction(instruction, place));
    for (const int64_t number : instruction.at("last").integers()) {
      if (number < 0 || static_cast<size_t>(number) >= registers_) {
        throw PackageError("its program names a value that does not exist");
      }
      instructions_.back()->last_uses.push_back(static_cast<int>(number));
    }
  }
  outputs_ = read_operands(json.at("outputs"), place.scope);
}

std::vector<c10::IValue> Program::run(std::vector<c10::IValue> inputs, const std::vector<at::Tensor>& weights) const {
  Frame frame{std::move(inputs), weights};
  frame.registers.resize(registers_);
  for (const auto& instruction : instructions_) {
    instruction->run(frame);
    for (const int number : instruction->last_uses) {
      frame.registers[number] = c10::IValue();
    }
  }
  std::vector<c10::IValue> results;
  results.reserve(outputs_.size());
  for (const Operand& output : outputs_) {
    results.push_back(output.value(frame));
  }
  return results;
}

}  // namespace inductor_npu::package
