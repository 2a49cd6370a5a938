// Operators that other devices have for types for which the CPU has no kernel: computed in a wider type.
#include "wider_types.h"

#include <ATen/Functions.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/core/List.h>
#include <ATen/core/dispatch/Dispatcher.h>

#include <unordered_map>

#include "fallback.h"

namespace inductor_npu {
namespace {

// Integers beyond it are not all doubles.
constexpr int64_t kExactDoubles = int64_t{1} << 53;

std::optional<at::ScalarType> wider_type(at::ScalarType type, WidenedTypes types) {
  switch (type) {
    case at::kHalf:
    case at::kBFloat16:
      return at::kFloat;
    case at::kComplexHalf:
      return at::kComplexFloat;
    case at::kBool:
      return types == WidenedTypes::kBooleans ? std::optional(at::kByte) : std::nullopt;
    case at::kUInt16:
      return types == WidenedTypes::kUnsigned ? std::optional(at::kInt) : std::nullopt;
    case at::kUInt32:
      return types == WidenedTypes::kUnsigned ? std::optional(at::kLong) : std::nullopt;
    default:
      return types == WidenedTypes::kIntegers && c10::isIntegralType(type, /*includeBool=*/false)
                 ? std::optional(at::kDouble)
                 : std::nullopt;
  }
}

// The arguments of a call in wider types, and the way back.
class WiderCall {
 public:
  WiderCall(const c10::OperatorHandle& op, c10::ArrayRef<c10::IValue> args, WidenedTypes widened)
      : op_(op), widened_(widened) {
    for (const c10::IValue& value : args) {
      visit_tensors(value, [&](const at::Tensor& tensor) {
        if (tensor.defined() && tensor.dim() > 0) {
          types_.push_back(tensor.scalar_type());
        }
      });
    }
  }

  bool widen(c10::ArrayRef<c10::IValue> args, torch::jit::Stack* stack) {
    for (size_t i = 0; i < args.size(); ++i) {
      stack->push_back(widened(args[i], op_.schema().arguments()[i]));
    }
    return fits_;
  }

  c10::IValue narrowed(c10::IValue value) {
    if (value.isTensor()) {
      return narrowed(value.toTensor());
    }
    if (value.isTensorList()) {
      std::vector<at::Tensor> tensors = value.toTensorVector();
      for (at::Tensor& tensor : tensors) {
        tensor = narrowed(tensor);
      }
      return tensors;
    }
    return value;
  }

  // Gives arguments that were written in place the values of their wider copies.
  void write_back() {
    for (const Pair& pair : pairs_) {
      if (pair.written) {
        if (pair.narrow.sizes() != pair.wide.sizes()) {
          pair.narrow.resize_(pair.wide.sizes());
        }
        pair.narrow.copy_(to_narrow(pair.wide, pair.narrow.scalar_type()));
      }
    }
  }

 private:
  struct Pair {
    at::Tensor narrow, wide;
    bool written;
  };

  c10::IValue widened(const c10::IValue& value, const c10::Argument& argument) {
    const c10::AliasInfo* alias = argument.alias_info();
    const bool written = alias != nullptr && alias->isWrite();
    if (value.isTensor()) {
      return widened(value.toTensor(), written);
    }
    if (value.isTensorList()) {
      std::vector<at::Tensor> tensors = value.toTensorVector();
      for (at::Tensor& tensor : tensors) {
        tensor = widened(tensor, written);
      }
      return tensors;
    }
    if (value.isOptionalTensorList()) {
      std::vector<std::optional<at::Tensor>> tensors = value.toOptionalTensorVector();
      for (std::optional<at::Tensor>& tensor : tensors) {
        if (tensor.has_value()) {
          tensor = widened(*tensor, written);
        }
      }
      return c10::List<std::optional<at::Tensor>>(tensors);
    }
    if (value.isInt() && names_a_type(argument)) {
      const auto type = static_cast<at::ScalarType>(value.toInt());
      return static_cast<int64_t>(wider_type(type, widened_).value_or(type));
    }
    return value;
  }

  static bool names_a_type(const c10::Argument& argument) {
    c10::TypePtr type = argument.real_type();
    if (const auto optional = type->cast<c10::OptionalType>()) {
      type = optional->getElementType();
    }
    return type->kind() == c10::TypeKind::ScalarTypeType;
  }

  at::Tensor widened(const at::Tensor& tensor, bool written) {
    if (!tensor.defined()) {
      return tensor;
    }
    const std::optional<at::ScalarType> type = wider_type(tensor.scalar_type(), widened_);
    if (!type.has_value()) {
      return tensor;
    }
    for (Pair& pair : pairs_) {
      if (pair.narrow.is_same(tensor)) {
        pair.written |= written;
        return pair.wide;
      }
    }
    fits_ &= holds(tensor, *type);
    at::Tensor wide = tensor.to(*type);
    if (tensor.requires_grad()) {
      wide.set_requires_grad(true);
    }
    pairs_.push_back({tensor, wide, written});
    return wide;
  }

  static bool holds(const at::Tensor& tensor, at::ScalarType wide) {
    if (tensor.scalar_type() != at::kLong || wide != at::kDouble || tensor.numel() == 0) {
      return true;
    }
    const auto [least, greatest] = at::aminmax(tensor);
    return least.item<int64_t>() >= -kExactDoubles && greatest.item<int64_t>() <= kExactDoubles;
  }

  // Integers wrap around, as they do where they are added up in the narrow type.
  static at::Tensor to_narrow(const at::Tensor& wide, at::ScalarType narrow) {
    const bool whole = wide.scalar_type() == at::kDouble;
    return (whole ? wide.to(at::kLong) : wide).to(narrow);
  }

  at::Tensor narrowed(const at::Tensor& tensor) {
    if (!tensor.defined()) {
      return tensor;
    }
    for (const Pair& pair : pairs_) {
      if (pair.wide.is_same(tensor)) {
        return pair.narrow;
      }
    }
    const at::ScalarType type = tensor.scalar_type();
    for (const Pair& pair : pairs_) {
      const std::optional<at::ScalarType> narrow = narrow_type(type, pair.narrow.scalar_type());
      if (narrow.has_value()) {
        return to_narrow(tensor, *narrow);
      }
    }
    return tensor;
  }

  // The type of a result that is `type` where an argument of type `narrow` was made wider; none if it stays as it is,
  // as where an argument had that type from the start: what is promoted, is promoted to it.
  std::optional<at::ScalarType> narrow_type(at::ScalarType type, at::ScalarType narrow) const {
    const at::ScalarType wide = *wider_type(narrow, widened_);
    for (const at::ScalarType other : types_) {
      if (other != narrow && (other == type || wider_type(other, widened_) == wide)) {
        return std::nullopt;
      }
    }
    if (type == wide) {
      return narrow;
    }
    const bool floating = c10::isFloatingType(wide) || c10::isComplexType(wide);
    if (!floating || narrow == at::kBFloat16 || c10::isIntegralType(narrow, /*includeBool=*/true)) {
      return std::nullopt;
    }
    if (type == c10::toRealValueType(wide)) {
      return c10::toRealValueType(narrow);
    }
    return type == c10::toComplexType(wide) ? std::optional(c10::toComplexType(narrow)) : std::nullopt;
  }

  const c10::OperatorHandle& op_;
  const WidenedTypes widened_;
  c10::SmallVector<at::ScalarType, 4> types_;  // of arguments that are not numbers
  c10::SmallVector<Pair, 4> pairs_;
  bool fits_ = true;
};

}  // namespace

WidenedTypes widened_types(const std::string& op) {
  static const std::unordered_map<std::string, WidenedTypes> table = {
      {"aten::histc", WidenedTypes::kIntegers},
      {"aten::abs", WidenedTypes::kBooleans},
      {"aten::abs_", WidenedTypes::kBooleans},
      {"aten::trace", WidenedTypes::kBooleans},
      {"aten::bitwise_left_shift", WidenedTypes::kUnsigned},
      {"aten::bitwise_left_shift_", WidenedTypes::kUnsigned},
      {"aten::bitwise_right_shift", WidenedTypes::kUnsigned},
      {"aten::bitwise_right_shift_", WidenedTypes::kUnsigned},
      {"aten::__lshift__", WidenedTypes::kUnsigned},
      {"aten::__ilshift__", WidenedTypes::kUnsigned},
      {"aten::__rshift__", WidenedTypes::kUnsigned},
      {"aten::__irshift__", WidenedTypes::kUnsigned},
  };
  const auto found = table.find(op);
  return found == table.end() ? WidenedTypes::kFloats : found->second;
}

bool has_narrow_types(c10::ArrayRef<c10::IValue> args, WidenedTypes types) {
  bool found = false;
  for (const c10::IValue& value : args) {
    visit_tensors(value, [&](const at::Tensor& tensor) {
      found |= tensor.defined() && wider_type(tensor.scalar_type(), types).has_value();
    });
  }
  return found;
}

bool lacks_kernel_of_type(const c10::Error& error) {
  const std::string& message = error.msg();
  return message.find("not implemented for '") != std::string::npos ||
         message.find("doesn't support tensors of type") != std::string::npos;
}

bool run_in_wider_types(const c10::OperatorHandle& op, c10::DispatchKeySet kernels, c10::ArrayRef<c10::IValue> args,
                        WidenedTypes types, torch::jit::Stack* stack) {
  const at::AutoDispatchBelowADInplaceOrView guard;
  WiderCall call(op, args, types);
  torch::jit::Stack wider;
  if (!call.widen(args, &wider)) {
    return false;
  }
  op.redispatchBoxed(kernels, &wider);
  for (c10::IValue& result : wider) {
    stack->push_back(call.narrowed(std::move(result)));
  }
  call.write_back();
  return true;
}

}  // namespace inductor_npu
