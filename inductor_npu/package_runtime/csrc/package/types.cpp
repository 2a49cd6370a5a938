// torch's names of types.
#include "package/types.h"

#include <inductor_npu/package.h>

#include <array>
#include <utility>

namespace inductor_npu::package {
namespace {

using c10::ScalarType;

constexpr std::array<std::pair<const char*, ScalarType>, 20> kNames = {{
    {"float32", ScalarType::Float},
    {"float64", ScalarType::Double},
    {"float16", ScalarType::Half},
    {"bfloat16", ScalarType::BFloat16},
    {"int64", ScalarType::Long},
    {"int32", ScalarType::Int},
    {"int16", ScalarType::Short},
    {"int8", ScalarType::Char},
    {"uint8", ScalarType::Byte},
    {"uint16", ScalarType::UInt16},
    {"uint32", ScalarType::UInt32},
    {"uint64", ScalarType::UInt64},
    {"bool", ScalarType::Bool},
    {"complex32", ScalarType::ComplexHalf},
    {"complex64", ScalarType::ComplexFloat},
    {"complex128", ScalarType::ComplexDouble},
    {"float8_e4m3fn", ScalarType::Float8_e4m3fn},
    {"float8_e5m2", ScalarType::Float8_e5m2},
    {"float8_e4m3fnuz", ScalarType::Float8_e4m3fnuz},
    {"float8_e5m2fnuz", ScalarType::Float8_e5m2fnuz},
}};

}  // namespace

ScalarType scalar_type(const std::string& name) {
  for (const auto& [known, type] : kNames) {
    if (name == known) {
      return type;
    }
  }
  throw PackageError("it uses type " + name + ", which this version does not know");
}

std::string name_of(ScalarType type) {
  for (const auto& [name, known] : kNames) {
    if (type == known) {
      return name;
    }
  }
  return c10::toString(type);
}

}  // namespace inductor_npu::package
