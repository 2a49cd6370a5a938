// The C functions that compiled kernels call, by name.
#include "kernel_symbols.h"

#include <c10/util/BFloat16.h>
#include <c10/util/Half.h>

#include <cinttypes>
#include <cstdio>
#include <cstring>
#include <string>
#include <vector>

#include "kernel_sort.h"
#include "memory_check.h"

namespace inductor_npu {
namespace {

template <class T>
T element(const void* values, int64_t index) {
  T value;
  std::memcpy(&value, static_cast<const char*>(values) + index * sizeof(T), sizeof(T));
  return value;
}

std::string format(const char* pattern, auto value) {
  char text[64];
  std::snprintf(text, sizeof(text), pattern, value);
  return text;
}

template <class T>
std::string format_integer(const void* values, int64_t index, bool hex) {
  const T value = element<T>(values, index);
  return hex ? format(("0x%0" + std::to_string(2 * sizeof(T)) + PRIx64).c_str(),
                      static_cast<uint64_t>(std::make_unsigned_t<T>(value)))
             : std::to_string(value);
}

// Element `index` of values of `kind`, a letter as in KernelLauncher's signature.
std::string format_element(const void* values, char kind, int64_t index, bool hex) {
  switch (kind) {
    case 'b':
    case 'B': return element<uint8_t>(values, index) != 0 ? "1" : "0";
    case 'c': return format_integer<int8_t>(values, index, hex);
    case 'h': return format_integer<int16_t>(values, index, hex);
    case 'i': return format_integer<int32_t>(values, index, hex);
    case 'l': return format_integer<int64_t>(values, index, hex);
    case 'C': return format_integer<uint8_t>(values, index, hex);
    case 'H': return format_integer<uint16_t>(values, index, hex);
    case 'I': return format_integer<uint32_t>(values, index, hex);
    case 'L': return format_integer<uint64_t>(values, index, hex);
    case 'p': return format_integer<uint64_t>(values, index, /*hex=*/true);
    case 'e': return format("%f", static_cast<double>(static_cast<float>(element<c10::Half>(values, index))));
    case 'y': return format("%f", static_cast<double>(static_cast<float>(element<c10::BFloat16>(values, index))));
    case 'f': return format("%f", static_cast<double>(element<float>(values, index)));
    case 'd': return format("%f", element<double>(values, index));
    default: return std::string("(kind '") + kind + "')";
  }
}

std::string format_position(int64_t flat, const int64_t* shape, int32_t rank) {
  std::vector<std::string> parts(rank);
  for (int32_t axis = rank - 1; axis >= 0; --axis) {
    parts[axis] = std::to_string(flat % shape[axis]);
    flat /= shape[axis];
  }
  std::string text;
  for (const std::string& part : parts) {
    text += (text.empty() ? "" : ", ") + part;
  }
  return text;
}

}  // namespace

extern "C" {

// tl.device_print of one operand: a line an element, as Triton prints it. `values` is contiguous, null for a print
// without operands.
void npu_device_print(const int32_t program[3], const char* prefix, const void* values, int32_t kind, int32_t hex,
                  int32_t operand, int32_t operands, const int64_t* shape, int32_t rank) {
  const std::string where = "pid (" + std::to_string(program[0]) + ", " + std::to_string(program[1]) + ", " +
                            std::to_string(program[2]) + ")";
  std::string text;
  if (values == nullptr) {
    text = where + prefix + "\n";
  } else {
    int64_t count = 1;
    for (int32_t axis = 0; axis < rank; ++axis) {
      count *= shape[axis];
    }
    const std::string which = operands > 1 ? "(operand " + std::to_string(operand) + ") " : "";
    for (int64_t i = 0; i < count; ++i) {
      text += where + " idx (" + format_position(i, shape, rank) + ")" + prefix + which +
              format_element(values, static_cast<char>(kind), i, hex != 0) + "\n";
    }
  }
  std::fwrite(text.data(), 1, text.size(), stdout);  // one call, so that lines of different threads do not mix
  std::fflush(stdout);
}

void npu_sort_rows(const char* values, const char* index, char* sorted_values, char* sorted_index, int64_t rows,
                   int64_t length, int64_t extent, int64_t row_stride, int64_t stride, int32_t kind,
                   int32_t value_bytes, int32_t index_bytes, int32_t descending) {
  sort_rows(values, index, sorted_values, sorted_index, rows, length, extent, row_stride, stride, kind, value_bytes,
            index_bytes, descending);
}

void npu_check_access(int64_t program, int32_t access, int32_t kind, int32_t bytes, uint64_t argument,
                      const uint64_t* addresses, const uint8_t* active, int32_t lanes) {
  memory_check::check_access(program, access, kind, bytes, argument, addresses, active, lanes);
}

}  // extern "C"

std::vector<std::pair<const char*, uint64_t>> kernel_symbols() {
  return {
      {"npu_device_print", reinterpret_cast<uint64_t>(&npu_device_print)},
      {"npu_sort_rows", reinterpret_cast<uint64_t>(&npu_sort_rows)},
      {"npu_check_access", reinterpret_cast<uint64_t>(&npu_check_access)},
  };
}

}  // namespace inductor_npu
