// Python's arithmetic of numbers, and what a program asks of tensors and lists.
#include "package/arithmetic.h"

#include <ATen/core/Tensor.h>
#include <c10/util/Exception.h>
#include <inductor_npu/package.h>

#include <algorithm>
#include <cmath>
#include <map>

namespace inductor_npu::package {
namespace {

using c10::IValue;
using Operands = std::vector<IValue>;

bool is_whole(const IValue& value) {
  return value.isInt() || value.isBool();
}

int64_t whole(const IValue& value) {
  return value.isBool() ? static_cast<int64_t>(value.toBool()) : value.toInt();
}

double real(const IValue& value) {
  return is_whole(value) ? static_cast<double>(whole(value)) : value.toDouble();
}

// Rounds towards minus infinity, as Python does.
int64_t floor_divide(int64_t dividend, int64_t divisor) {
  TORCH_CHECK(divisor != 0, "a size of this package's program is divided by zero");
  const int64_t quotient = dividend / divisor;
  return quotient - (dividend % divisor != 0 && (dividend < 0) != (divisor < 0) ? 1 : 0);
}

int64_t power(int64_t base, int64_t exponent) {
  TORCH_CHECK(exponent >= 0, "a size of this package's program is raised to a negative power");
  int64_t result = 1;
  for (int64_t i = 0; i < exponent; ++i) {
    result *= base;
  }
  return result;
}

// A function of two numbers: of integers, where both are, else of doubles.
template <class OfIntegers, class OfReals>
IValue of_two(const Operands& operands, OfIntegers of_integers, OfReals of_reals) {
  const IValue &left = operands[0], &right = operands[1];
  if (is_whole(left) && is_whole(right)) {
    return of_integers(whole(left), whole(right));
  }
  return of_reals(real(left), real(right));
}

template <class Operation>
IValue of_two(const Operands& operands, Operation operation) {
  return of_two(operands, operation, operation);
}

struct Entry {
  size_t operands;
  Function function;
};

using O = const Operands&;

const std::map<std::string, Entry>& functions() {
  static const auto* table = new std::map<std::string, Entry>{
      {"add", {2, [](O o) { return of_two(o, [](auto a, auto b) -> IValue { return a + b; }); }}},
      {"sub", {2, [](O o) { return of_two(o, [](auto a, auto b) -> IValue { return a - b; }); }}},
      {"mul", {2, [](O o) { return of_two(o, [](auto a, auto b) -> IValue { return a * b; }); }}},
      {"min", {2, [](O o) { return of_two(o, [](auto a, auto b) -> IValue { return std::min(a, b); }); }}},
      {"max", {2, [](O o) { return of_two(o, [](auto a, auto b) -> IValue { return std::max(a, b); }); }}},
      {"eq", {2, [](O o) { return of_two(o, [](auto a, auto b) -> IValue { return a == b; }); }}},
      {"ne", {2, [](O o) { return of_two(o, [](auto a, auto b) -> IValue { return a != b; }); }}},
      {"lt", {2, [](O o) { return of_two(o, [](auto a, auto b) -> IValue { return a < b; }); }}},
      {"le", {2, [](O o) { return of_two(o, [](auto a, auto b) -> IValue { return a <= b; }); }}},
      {"gt", {2, [](O o) { return of_two(o, [](auto a, auto b) -> IValue { return a > b; }); }}},
      {"ge", {2, [](O o) { return of_two(o, [](auto a, auto b) -> IValue { return a >= b; }); }}},
      {"floordiv",
       {2,
        [](O o) {
          return of_two(
              o, [](int64_t a, int64_t b) -> IValue { return floor_divide(a, b); },
              [](double a, double b) -> IValue { return std::floor(a / b); });
        }}},
      {"mod",
       {2,
        [](O o) {
          return of_two(
              o, [](int64_t a, int64_t b) -> IValue { return a - floor_divide(a, b) * b; },
              [](double a, double b) -> IValue { return a - std::floor(a / b) * b; });
        }}},
      {"pow",
       {2,
        [](O o) {
          return of_two(
              o, [](int64_t a, int64_t b) -> IValue { return power(a, b); },
              [](double a, double b) -> IValue { return std::pow(a, b); });
        }}},
      {"truediv", {2, [](O o) -> IValue { return real(o[0]) / real(o[1]); }}},
      {"and", {2, [](O o) -> IValue { return whole(o[0]) != 0 && whole(o[1]) != 0; }}},
      {"or", {2, [](O o) -> IValue { return whole(o[0]) != 0 || whole(o[1]) != 0; }}},
      {"not", {1, [](O o) -> IValue { return whole(o[0]) == 0; }}},
      {"neg", {1, [](O o) -> IValue { return is_whole(o[0]) ? IValue(-whole(o[0])) : IValue(-real(o[0])); }}},
      {"abs", {1, [](O o) -> IValue { return is_whole(o[0]) ? IValue(std::abs(whole(o[0]))) : IValue(std::abs(real(o[0]))); }}},
      {"float", {1, [](O o) -> IValue { return real(o[0]); }}},
      {"sqrt", {1, [](O o) -> IValue { return std::sqrt(real(o[0])); }}},
      {"floor", {1, [](O o) -> IValue { return static_cast<int64_t>(std::floor(real(o[0]))); }}},
      {"ceil", {1, [](O o) -> IValue { return static_cast<int64_t>(std::ceil(real(o[0]))); }}},
      {"trunc", {1, [](O o) -> IValue { return static_cast<int64_t>(std::trunc(real(o[0]))); }}},
      {"size", {2, [](O o) -> IValue { return o[0].toTensor().size(whole(o[1])); }}},
      {"stride", {2, [](O o) -> IValue { return o[0].toTensor().stride(whole(o[1])); }}},
      {"storage_offset", {1, [](O o) -> IValue { return o[0].toTensor().storage_offset(); }}},
      {"item", {2, [](O o) -> IValue { return o[0].toList().get(static_cast<size_t>(whole(o[1]))); }}},
  };
  return *table;
}

}  // namespace

Function function_called(const std::string& name, size_t operands) {
  const auto entry = functions().find(name);
  if (entry == functions().end() || entry->second.operands != operands) {
    throw PackageError("its program computes " + name + ", which this version does not know");
  }
  return entry->second.function;
}

}  // namespace inductor_npu::package
