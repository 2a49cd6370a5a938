// Operands: read from JSON once, evaluated in each run.
#include "package/operand.h"

#include <ATen/ScalarOps.h>
#include <ATen/core/List.h>
#include <c10/core/Layout.h>
#include <c10/core/MemoryFormat.h>
#include <inductor_npu/package.h>

#include <limits>

#include "package/types.h"

namespace inductor_npu::package {
namespace {

const c10::Type& without_optional(const c10::Type& type) {
  const auto* optional = type.castRaw<c10::OptionalType>();
  return optional == nullptr ? type : without_optional(*optional->getElementType());
}

c10::IValue read_layout(const std::string& name) {
  if (name == "strided") {
    return static_cast<int64_t>(c10::Layout::Strided);
  }
  throw PackageError("it uses layout " + name + ", which this version does not know");
}

c10::IValue read_memory_format(const std::string& name) {
  static const std::map<std::string, c10::MemoryFormat> formats = {
      {"contiguous_format", c10::MemoryFormat::Contiguous},
      {"preserve_format", c10::MemoryFormat::Preserve},
      {"channels_last", c10::MemoryFormat::ChannelsLast},
      {"channels_last_3d", c10::MemoryFormat::ChannelsLast3d},
  };
  const auto entry = formats.find(name);
  if (entry == formats.end()) {
    throw PackageError("it uses memory format " + name + ", which this version does not know");
  }
  return static_cast<int64_t>(entry->second);
}

c10::IValue read_real(const std::string& name) {
  if (name == "nan") {
    return std::numeric_limits<double>::quiet_NaN();
  }
  return name == "-inf" ? -std::numeric_limits<double>::infinity() : std::numeric_limits<double>::infinity();
}

// A constant that JSON has no form for: an object with one member, which says what it is.
c10::IValue read_special(const Json& json, const Scope& scope) {
  if (const Json* name = json.find("dtype")) {
    return static_cast<int64_t>(scalar_type(name->string()));
  }
  if (const Json* name = json.find("device")) {
    return name->string() == "npu" ? scope.device : c10::Device(name->string());
  }
  if (const Json* name = json.find("layout")) {
    return read_layout(name->string());
  }
  if (const Json* name = json.find("memory_format")) {
    return read_memory_format(name->string());
  }
  if (const Json* name = json.find("real")) {
    return read_real(name->string());
  }
  if (const Json* parts = json.find("complex")) {
    return c10::complex<double>(parts->array().at(0).real(), parts->array().at(1).real());
  }
  throw PackageError("it has an operand that this version does not know");
}

c10::IValue read_constant(const Json& json, const Scope& scope, const c10::Type* type) {
  if (json.is_null()) {
    return {};
  }
  if (json.is_bool()) {
    return json.boolean();
  }
  if (json.is_integer()) {
    const bool as_real = type != nullptr && type->kind() == c10::TypeKind::FloatType;
    return as_real ? c10::IValue(static_cast<double>(json.integer())) : c10::IValue(json.integer());
  }
  if (json.is_real()) {
    return json.real();
  }
  return json.is_string() ? c10::IValue(json.string()) : read_special(json, scope);
}

// A number where an operator takes a tensor, as Python allows: of a type that gives way to other operands' types.
c10::IValue as_tensor(const c10::IValue& number) {
  at::Tensor tensor = c10::scalar_to_tensor(number.toScalar());
  tensor.unsafeGetTensorImpl()->set_wrapped_number(true);
  return tensor;
}

}  // namespace

Operand Operand::read(const Json& json, const Scope& scope, const c10::Type* type) {
  if (json.is_object()) {
    if (const Json* number = json.find("r")) {
      return reference(Kind::kRegister, *number, scope.registers);
    }
    if (const Json* number = json.find("w")) {
      return reference(Kind::kWeight, *number, scope.weights);
    }
  }
  const c10::Type* plain = type == nullptr ? nullptr : &without_optional(*type);
  if (json.is_array()) {
    const auto* list_type = plain == nullptr ? nullptr : plain->castRaw<c10::ListType>();
    if (list_type == nullptr) {
      throw PackageError("it has a list where none belongs");
    }
    return list(json, scope, list_type->getElementType());
  }
  const c10::IValue value = read_constant(json, scope, plain);
  const bool wrapped = plain != nullptr && plain->kind() == c10::TypeKind::TensorType && value.isScalar();
  return constant(wrapped ? as_tensor(value) : value);
}

Operand Operand::constant(c10::IValue value) {
  Operand operand;
  operand.constant_ = std::move(value);
  return operand;
}

Operand Operand::reference(Kind kind, const Json& number, size_t count) {
  const int64_t index = number.integer();
  if (index < 0 || static_cast<size_t>(index) >= count) {
    throw PackageError("its program names a value that does not exist");
  }
  Operand operand;
  operand.kind_ = kind;
  operand.index_ = static_cast<int>(index);
  return operand;
}

Operand Operand::list(const Json& json, const Scope& scope, const c10::TypePtr& element) {
  Operand operand;
  operand.kind_ = Kind::kList;
  operand.element_ = element;
  bool constant_elements = true;
  for (const Json& part : json.array()) {
    operand.elements_.push_back(read(part, scope, element.get()));
    constant_elements = constant_elements && operand.elements_.back().kind_ == Kind::kConstant;
  }
  if (constant_elements && element->kind() == c10::TypeKind::IntType) {  // sizes: most are known
    static const std::vector<at::Tensor> none;
    return constant(operand.value(Frame{{}, none}));
  }
  return operand;
}

c10::IValue Operand::value(const Frame& frame) const {
  switch (kind_) {
    case Kind::kConstant: return constant_;
    case Kind::kRegister: return frame.registers[index_];
    case Kind::kWeight: return frame.weights[index_];
    case Kind::kList: break;
  }
  c10::impl::GenericList list(element_);
  list.reserve(elements_.size());
  for (const Operand& element : elements_) {
    list.push_back(element.value(frame));
  }
  return list;
}

int64_t Operand::integer(const Frame& frame) const {
  const c10::IValue& value = kind_ == Kind::kRegister ? frame.registers[index_] : constant_;
  return value.isBool() ? static_cast<int64_t>(value.toBool()) : value.toInt();
}

std::vector<Operand> read_operands(const Json& list, const Scope& scope) {
  std::vector<Operand> operands;
  for (const Json& element : list.array()) {
    operands.push_back(Operand::read(element, scope));
  }
  return operands;
}

std::vector<int64_t> integers(const std::vector<Operand>& operands, const Frame& frame) {
  std::vector<int64_t> values;
  values.reserve(operands.size());
  for (const Operand& operand : operands) {
    values.push_back(operand.integer(frame));
  }
  return values;
}

}  // namespace inductor_npu::package
