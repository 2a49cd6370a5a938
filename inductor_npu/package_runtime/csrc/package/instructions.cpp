// The kinds of instructions: allocate, view, launch a kernel, call an operator, compute a number.
#include <ATen/Functions.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <c10/util/SmallVector.h>
#include <inductor_npu/package.h>

#include "package/arithmetic.h"
#include "package/program.h"
#include "package/types.h"

namespace inductor_npu::package {
namespace {

int read_target(const Json& number, const Scope& scope) {
  const int64_t index = number.integer();
  if (index < 0 || static_cast<size_t>(index) >= scope.registers) {
    throw PackageError("its program names a value that does not exist");
  }
  return static_cast<int>(index);
}

class Allocate final : public Instruction {
 public:
  Allocate(const Json& json, const Place& place)
      : target_(read_target(json.at("to"), place.scope)),
        sizes_(read_operands(json.at("size"), place.scope)),
        strides_(read_operands(json.at("stride"), place.scope)),
        type_(scalar_type(json.at("dtype").string())),
        device_(json.at("device").string() == "npu" ? place.scope.device : c10::Device(json.at("device").string())) {}

  void run(Frame& frame) const override {
    frame.registers[target_] = at::empty_strided(integers(sizes_, frame), integers(strides_, frame),
                                                 at::TensorOptions().dtype(type_).device(device_));
  }

 private:
  int target_;
  std::vector<Operand> sizes_, strides_;
  c10::ScalarType type_;
  c10::Device device_;
};

class View final : public Instruction {
 public:
  View(const Json& json, const Place& place)
      : target_(read_target(json.at("to"), place.scope)),
        of_(Operand::read(json.at("of"), place.scope)),
        sizes_(read_operands(json.at("size"), place.scope)),
        strides_(read_operands(json.at("stride"), place.scope)),
        offset_(Operand::read(json.at("offset"), place.scope)) {}

  void run(Frame& frame) const override {
    frame.registers[target_] = at::as_strided(of_.value(frame).toTensor(), integers(sizes_, frame),
                                              integers(strides_, frame), offset_.integer(frame));
  }

 private:
  int target_;
  Operand of_;
  std::vector<Operand> sizes_, strides_;
  Operand offset_;
};

class LaunchKernel final : public Instruction {
 public:
  LaunchKernel(const Json& json, const Place& place)
      : grid_(read_operands(json.at("grid"), place.scope)),
        arguments_(read_operands(json.at("arguments"), place.scope)),
        device_(place.scope.device) {
    const auto number = static_cast<size_t>(json.at("kernel").integer());
    if (number >= place.kernels.size() || grid_.size() != 3 ||
        arguments_.size() != place.kernels[number]->argument_count()) {
      throw PackageError("its program launches a kernel that it does not have");
    }
    kernel_ = place.kernels[number];
  }

  void run(Frame& frame) const override {
    c10::SmallVector<c10::IValue, 16> arguments;
    for (const Operand& argument : arguments_) {
      arguments.push_back(argument.value(frame));
    }
    kernel_->launch({grid_[0].integer(frame), grid_[1].integer(frame), grid_[2].integer(frame)}, arguments, device_);
  }

 private:
  std::shared_ptr<const PackagedKernel> kernel_;
  std::vector<Operand> grid_, arguments_;
  c10::Device device_;
};

c10::OperatorHandle find_operator(const std::string& name, const std::string& overload) {
  const auto found = c10::Dispatcher::singleton().findSchema({name, overload});
  if (!found.has_value()) {
    throw PackageError("it calls " + name + (overload.empty() ? "" : "." + overload) +
                       ", which this process does not have: load the library that defines it first, or use the torch "
                       "that the package was made with");
  }
  return *found;
}

class CallOperator final : public Instruction {
 public:
  CallOperator(const Json& json, const Place& place)
      : operator_(find_operator(json.at("operator").string(), json.at("overload").string())) {
    const auto& given = json.at("arguments").object();
    size_t used = 0;
    for (const c10::Argument& argument : operator_.schema().arguments()) {
      const auto entry = given.find(argument.name());
      if (entry != given.end()) {
        arguments_.push_back(Operand::read(entry->second, place.scope, argument.type().get()));
        ++used;
      } else if (argument.default_value().has_value()) {
        arguments_.push_back(Operand::constant(*argument.default_value()));
      } else {
        does_not_fit("lacks argument " + argument.name());
      }
    }
    if (used != given.size()) {
      does_not_fit("has an argument that this torch does not know");
    }
    for (const Json& target : json.at("to").array()) {
      targets_.push_back(target.is_null() ? -1 : read_target(target, place.scope));
    }
    if (targets_.size() != operator_.schema().returns().size()) {
      does_not_fit("gives another number of results");
    }
  }

  void run(Frame& frame) const override {
    torch::jit::Stack stack;
    stack.reserve(arguments_.size());
    for (const Operand& argument : arguments_) {
      stack.push_back(argument.value(frame));
    }
    operator_.callBoxed(&stack);
    for (size_t i = 0; i < targets_.size(); ++i) {
      if (targets_[i] >= 0) {
        frame.registers[targets_[i]] = std::move(stack[i]);
      }
    }
  }

 private:
  [[noreturn]] void does_not_fit(const std::string& reason) const {
    throw PackageError("its call of " + c10::toString(operator_.operator_name()) + " does not fit this torch: it " +
                       reason);
  }

  c10::OperatorHandle operator_;
  std::vector<Operand> arguments_;
  std::vector<int> targets_;
};

class Compute final : public Instruction {
 public:
  Compute(const Json& json, const Place& place)
      : target_(read_target(json.at("to"), place.scope)),
        operands_(read_operands(json.at("operands"), place.scope)),
        function_(function_called(json.at("function").string(), operands_.size())) {}

  void run(Frame& frame) const override {
    std::vector<c10::IValue> values;
    values.reserve(operands_.size());
    for (const Operand& operand : operands_) {
      values.push_back(operand.value(frame));
    }
    frame.registers[target_] = function_(values);
  }

 private:
  int target_;
  std::vector<Operand> operands_;
  Function function_;
};

}  // namespace

std::unique_ptr<Instruction> read_instruction(const Json& json, const Place& place) {
  const std::string& kind = json.at("do").string();
  if (kind == "launch") {
    return std::make_unique<LaunchKernel>(json, place);
  }
  if (kind == "call") {
    return std::make_unique<CallOperator>(json, place);
  }
  if (kind == "allocate") {
    return std::make_unique<Allocate>(json, place);
  }
  if (kind == "view") {
    return std::make_unique<View>(json, place);
  }
  if (kind == "compute") {
    return std::make_unique<Compute>(json, place);
  }
  throw PackageError("its program has an instruction that this version does not know: " + kind);
}

}  // namespace inductor_npu::package
