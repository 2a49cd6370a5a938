// JSON, as packages contain it: read only, checked strictly.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace inductor_npu::package {

// A value of JSON. Each accessor throws PackageError where the value is of another kind.
class Json {
 public:
  using Array = std::vector<Json>;
  using Object = std::map<std::string, Json, std::less<>>;

  // Throws PackageError, with the place, where `text` is not JSON.
  static Json parse(std::string_view text);

  Json() = default;
  explicit Json(std::variant<std::monostate, bool, int64_t, double, std::string, Array, Object> value)
      : value_(std::move(value)) {}

  bool is_null() const { return std::holds_alternative<std::monostate>(value_); }
  bool is_bool() const { return std::holds_alternative<bool>(value_); }
  bool is_integer() const { return std::holds_alternative<int64_t>(value_); }
  bool is_real() const { return std::holds_alternative<double>(value_); }
  bool is_string() const { return std::holds_alternative<std::string>(value_); }
  bool is_array() const { return std::holds_alternative<Array>(value_); }
  bool is_object() const { return std::holds_alternative<Object>(value_); }

  bool boolean() const { return get<bool>("true or false"); }
  int64_t integer() const { return get<int64_t>("an integer"); }
  double real() const { return is_integer() ? static_cast<double>(integer()) : get<double>("a number"); }
  const std::string& string() const { return get<std::string>("a string"); }
  const Array& array() const { return get<Array>("a list"); }
  const Object& object() const { return get<Object>("an object"); }

  // The member called `name` of an object, which must be there.
  const Json& at(std::string_view name) const;
  // The same; null if it is not there.
  const Json* find(std::string_view name) const;

  std::vector<int64_t> integers() const;
  std::vector<std::string> strings() const;

 private:
  template <class T>
  const T& get(const char* expected) const {
    if (const T* value = std::get_if<T>(&value_)) {
      return *value;
    }
    wrong_kind(expected);
  }
  [[noreturn]] static void wrong_kind(const char* expected);

  std::variant<std::monostate, bool, int64_t, double, std::string, Array, Object> value_;
};

}  // namespace inductor_npu::package
