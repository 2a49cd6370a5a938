// Reads JSON by recursive descent.
#include "package/json.h"

#include <inductor_npu/package.h>

#include <charconv>
#include <utility>

namespace inductor_npu::package {
namespace {

constexpr int kDeepest = 64;  // a file that nests deeper is not ours, and must not exhaust the stack

class Reader {
 public:
  explicit Reader(std::string_view text) : text_(text) {}

  Json document() {
    Json value = read(0);
    skip_space();
    if (place_ != text_.size()) {
      fail("text after the value");
    }
    return value;
  }

 private:
  [[noreturn]] void fail(const std::string& reason) const {
    throw PackageError("its JSON is damaged at byte " + std::to_string(place_) + ": " + reason);
  }

  void skip_space() {
    while (place_ < text_.size() && std::string_view(" \t\r\n").find(text_[place_]) != std::string_view::npos) {
      ++place_;
    }
  }

  char peek() {
    skip_space();
    if (place_ == text_.size()) {
      fail("it ends too early");
    }
    return text_[place_];
  }

  bool take(char expected) {
    if (peek() != expected) {
      return false;
    }
    ++place_;
    return true;
  }

  void expect(char expected) {
    if (!take(expected)) {
      fail(std::string("'") + expected + "' is missing");
    }
  }

  Json read(int depth) {
    if (depth > kDeepest) {
      fail("it nests too deep");
    }
    switch (peek()) {
      case '{': return Json(read_object(depth));
      case '[': return Json(read_array(depth));
      case '"': return Json(read_string());
      case 't': return read_word("true", Json(true));
      case 'f': return read_word("false", Json(false));
      case 'n': return read_word("null", Json());
      default: return read_number();
    }
  }

  Json read_word(std::string_view word, Json value) {
    if (text_.substr(place_, word.size()) != word) {
      fail("an unknown word");
    }
    place_ += word.size();
    return value;
  }

  Json::Object read_object(int depth) {
    Json::Object members;
    expect('{');
    if (take('}')) {
      return members;
    }
    do {
      if (peek() != '"') {
        fail("a name is missing");
      }
      std::string name = read_string();
      expect(':');
      if (!members.emplace(std::move(name), read(depth + 1)).second) {
        fail("a name appears twice");
      }
    } while (take(','));
    expect('}');
    return members;
  }

  Json::Array read_array(int depth) {
    Json::Array elements;
    expect('[');
    if (take(']')) {
      return elements;
    }
    do {
      elements.push_back(read(depth + 1));
    } while (take(','));
    expect(']');
    return elements;
  }

  std::string read_string() {
    expect('"');
    std::string result;
    while (true) {
      if (place_ == text_.size()) {
        fail("a string does not end");
      }
      const char next = text_[place_++];
      if (next == '"') {
        return result;
      }
      if (next == '\\') {
        read_escape(result);
      } else {
        result.push_back(next);
      }
    }
  }

  void read_escape(std::string& result) {
    if (place_ == text_.size()) {
      fail("a string does not end");
    }
    static constexpr std::string_view names = "\"\\/bfnrt", values = "\"\\/\b\f\n\r\t";
    const char kind = text_[place_++];
    if (const size_t index = names.find(kind); index != std::string_view::npos) {
      result.push_back(values[index]);
    } else if (kind == 'u') {
      uint32_t code = read_hex();
      if (code >= 0xD800 && code < 0xDC00) {  // the first of a pair
        if (text_.substr(place_, 2) != "\\u") {
          fail("half of a surrogate pair");
        }
        place_ += 2;
        code = 0x10000 + ((code - 0xD800) << 10) + (read_hex() - 0xDC00);
      }
      append_utf8(result, code);
    } else {
      fail("an unknown escape");
    }
  }

  uint32_t read_hex() {
    uint32_t code = 0;
    const std::string_view digits = text_.substr(place_, 4);
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), code, 16);
    if (error != std::errc() || digits.size() != 4 || end != digits.data() + 4) {
      fail("four hexadecimal digits are missing");
    }
    place_ += 4;
    return code;
  }

  static void append_utf8(std::string& result, uint32_t code) {
    if (code < 0x80) {
      result.push_back(static_cast<char>(code));
    } else if (code < 0x800) {
      result.push_back(static_cast<char>(0xC0 | (code >> 6)));
      result.push_back(static_cast<char>(0x80 | (code & 0x3F)));
    } else if (code < 0x10000) {
      result.push_back(static_cast<char>(0xE0 | (code >> 12)));
      result.push_back(static_cast<char>(0x80 | ((code >> 6) & 0x3F)));
      result.push_back(static_cast<char>(0x80 | (code & 0x3F)));
    } else {
      result.push_back(static_cast<char>(0xF0 | (code >> 18)));
      result.push_back(static_cast<char>(0x80 | ((code >> 12) & 0x3F)));
      result.push_back(static_cast<char>(0x80 | ((code >> 6) & 0x3F)));
      result.push_back(static_cast<char>(0x80 | (code & 0x3F)));
    }
  }

  Json read_number() {
    const size_t end = std::min(text_.find_first_not_of("+-.0123456789eE", place_), text_.size());
    const std::string_view number = text_.substr(place_, end - place_);
    const char* last = number.data() + number.size();
    int64_t integer = 0;
    double real = 0;
    if (const auto parsed = std::from_chars(number.data(), last, integer);
        parsed.ec == std::errc() && parsed.ptr == last) {
      place_ = end;
      return Json(integer);
    }
    if (const auto parsed = std::from_chars(number.data(), last, real);
        parsed.ec != std::errc() || parsed.ptr != last) {
      fail("not a number");
    }
    place_ = end;
    return Json(real);
  }

  std::string_view text_;
  size_t place_ = 0;
};

}  // namespace

Json Json::parse(std::string_view text) {
  return Reader(text).document();
}

void Json::wrong_kind(const char* expected) {
  throw PackageError(std::string("its description has something else where ") + expected + " belongs");
}

const Json* Json::find(std::string_view name) const {
  const auto entry = object().find(name);
  return entry == object().end() ? nullptr : &entry->second;
}

const Json& Json::at(std::string_view name) const {
  if (const Json* value = find(name)) {
    return *value;
  }
  throw PackageError("its description lacks " + std::string(name));
}

std::vector<int64_t> Json::integers() const {
  std::vector<int64_t> result;
  for (const Json& element : array()) {
    result.push_back(element.integer());
  }
  return result;
}

std::vector<std::string> Json::strings() const {
  std::vector<std::string> result;
  for (const Json& element : array()) {
    result.push_back(element.string());
  }
  return result;
}

}  // namespace inductor_npu::package
