// Sums, products, maxima and minima of HCCL's data types.
#include "reductions.h"

#include <cstdint>
#include <cstring>
#include <type_traits>

namespace standin {
namespace {

// The upper half of a float32, rounded to the nearest, ties to even.
class Bfloat16 {
 public:
  Bfloat16(float value) {
    uint32_t bits;
    std::memcpy(&bits, &value, sizeof bits);
    if (value != value) bits_ = 0x7FC0;
    else bits_ = static_cast<uint16_t>((bits + 0x7FFF + (bits >> 16 & 1)) >> 16);
  }
  operator float() const {
    uint32_t bits = uint32_t{bits_} << 16;
    float value;
    std::memcpy(&value, &bits, sizeof value);
    return value;
  }

 private:
  uint16_t bits_;
};

// What a type is computed in: its result is rounded, or wraps, when it is stored.
template <typename T>
struct Wide {
  using type = T;
};
template <>
struct Wide<Bfloat16> {
  using type = float;
};
template <>
struct Wide<_Float16> {
  using type = float;
};
template <>
struct Wide<int8_t> {
  using type = uint32_t;
};
template <>
struct Wide<int16_t> {
  using type = uint32_t;
};
template <>
struct Wide<uint16_t> {
  using type = uint32_t;
};
template <>
struct Wide<int32_t> {
  using type = uint32_t;
};
template <>
struct Wide<int64_t> {
  using type = uint64_t;
};

template <typename T>
void reduce(T* into, const T* from, size_t count, HcclReduceOp op) {
  using W = typename Wide<T>::type;
  for (size_t i = 0; i < count; ++i) {
    switch (op) {
      case HCCL_REDUCE_SUM: into[i] = static_cast<T>(static_cast<W>(into[i]) + static_cast<W>(from[i])); break;
      case HCCL_REDUCE_PROD: into[i] = static_cast<T>(static_cast<W>(into[i]) * static_cast<W>(from[i])); break;
      case HCCL_REDUCE_MAX: into[i] = into[i] < from[i] ? from[i] : into[i]; break;
      case HCCL_REDUCE_MIN: into[i] = from[i] < into[i] ? from[i] : into[i]; break;
      default: break;
    }
  }
}

struct Type {
  HcclDataType type;
  const char* name;
  size_t size;
  void (*reduce)(void* into, const void* from, size_t count, HcclReduceOp op);  // null: is only moved
};

template <typename T>
constexpr Type number(HcclDataType type, const char* name) {
  return {type, name, sizeof(T), [](void* into, const void* from, size_t count, HcclReduceOp op) {
            reduce(static_cast<T*>(into), static_cast<const T*>(from), count, op);
          }};
}

const Type kTypes[] = {
    number<int8_t>(HCCL_DATA_TYPE_INT8, "int8"),       number<int16_t>(HCCL_DATA_TYPE_INT16, "int16"),
    number<int32_t>(HCCL_DATA_TYPE_INT32, "int32"),    number<int64_t>(HCCL_DATA_TYPE_INT64, "int64"),
    number<uint8_t>(HCCL_DATA_TYPE_UINT8, "uint8"),    number<uint16_t>(HCCL_DATA_TYPE_UINT16, "uint16"),
    number<uint32_t>(HCCL_DATA_TYPE_UINT32, "uint32"), number<uint64_t>(HCCL_DATA_TYPE_UINT64, "uint64"),
    number<_Float16>(HCCL_DATA_TYPE_FP16, "float16"),  number<Bfloat16>(HCCL_DATA_TYPE_BFP16, "bfloat16"),
    number<float>(HCCL_DATA_TYPE_FP32, "float32"),     number<double>(HCCL_DATA_TYPE_FP64, "float64"),
    {HCCL_DATA_TYPE_INT128, "int128", 16, nullptr},    {HCCL_DATA_TYPE_HIF8, "hif8", 1, nullptr},
    {HCCL_DATA_TYPE_FP8E4M3, "fp8e4m3", 1, nullptr},   {HCCL_DATA_TYPE_FP8E5M2, "fp8e5m2", 1, nullptr},
    {HCCL_DATA_TYPE_FP8E8M0, "fp8e8m0", 1, nullptr},
};

const Type* find(HcclDataType wanted) {
  for (const Type& type : kTypes)
    if (type.type == wanted) return &type;
  return nullptr;
}

}  // namespace

size_t size_of(HcclDataType type) { return find(type) ? find(type)->size : 0; }

const char* name_of(HcclDataType type) { return find(type) ? find(type)->name : "of an unknown type"; }

const char* name_of(HcclReduceOp op) {
  constexpr const char* names[] = {"sum", "product", "maximum", "minimum"};
  return op >= HCCL_REDUCE_SUM && op <= HCCL_REDUCE_MIN ? names[op] : "no reduction";
}

bool can_reduce(HcclDataType type, HcclReduceOp op) {
  return op >= HCCL_REDUCE_SUM && op <= HCCL_REDUCE_MIN && find(type) && find(type)->reduce;
}

void reduce_into(void* into, const void* from, size_t count, HcclDataType type, HcclReduceOp op) {
  find(type)->reduce(into, from, count, op);
}

}  // namespace standin
