#include "kernel_sort.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <limits>
#include <type_traits>
#include <vector>

namespace inductor_npu {
namespace {

constexpr int64_t kShortRow = 64;  // up to there comparing takes less time than counting digits

// A key that is ordered as an unsigned number, and where its element was. Equal keys stay in order of that.
template <class Key>
struct Entry {
  Key key;
  uint32_t place;
  bool operator<(const Entry& other) const {
    return key != other.key ? key < other.key : place < other.place;
  }
};

// The bits of infinity as a float of so many bytes.
uint64_t infinity_of(size_t bytes) {
  switch (bytes) {
    case 2: return 0x7C00;
    case 4: return 0x7F800000;
    default: return 0x7FF0000000000000;
  }
}

// The bits of an element as an unsigned number that is ordered like it; NaN is above all, -0 is 0.
template <class Bits>
Bits ordered(Bits bits, char kind, Bits infinity) {
  constexpr Bits sign = Bits(1) << (8 * sizeof(Bits) - 1);
  if (kind == 'u') {
    return bits;
  }
  if (kind == 'i') {
    return bits ^ sign;
  }
  const Bits magnitude = bits & ~sign;
  if (magnitude > infinity) {
    return std::numeric_limits<Bits>::max();
  }
  if (magnitude == 0) {
    return sign;
  }
  return bits & sign ? static_cast<Bits>(~bits) : static_cast<Bits>(bits | sign);
}

// Sorts by the keys' digits of 8 bits, from the lowest on; a digit that is the same everywhere takes no pass.
template <class Key>
Entry<Key>* radix_sort(Entry<Key>* entries, Entry<Key>* other, int64_t length, size_t digits) {
  std::array<std::array<uint32_t, 256>, sizeof(Key)> counts;
  std::memset(counts.data(), 0, digits * sizeof(counts[0]));
  for (int64_t i = 0; i < length; ++i) {
    for (size_t digit = 0; digit < digits; ++digit) {
      ++counts[digit][(entries[i].key >> (8 * digit)) & 255];
    }
  }
  for (size_t digit = 0; digit < digits; ++digit) {
    auto& count = counts[digit];
    if (count[(entries[0].key >> (8 * digit)) & 255] == length) {
      continue;
    }
    uint32_t begin = 0;
    for (uint32_t& each : count) {
      const uint32_t here = each;
      each = begin;
      begin += here;
    }
    for (int64_t i = 0; i < length; ++i) {
      other[count[(entries[i].key >> (8 * digit)) & 255]++] = entries[i];
    }
    std::swap(entries, other);
  }
  return entries;
}

void copy_element(char* to, const char* from, size_t bytes) {
  switch (bytes) {
    case 1: std::memcpy(to, from, 1); break;
    case 2: std::memcpy(to, from, 2); break;
    case 4: std::memcpy(to, from, 4); break;
    default: std::memcpy(to, from, 8);
  }
}

template <class Bits>
void sort_rows_of(const SortedRows& rows) {
  using Key = std::conditional_t<sizeof(Bits) == 8, uint64_t, uint32_t>;
  thread_local std::vector<Entry<Key>> workspace;
  workspace.resize(2 * rows.length);
  const Bits infinity = static_cast<Bits>(infinity_of(sizeof(Bits)));
  const Bits flip = rows.descending ? std::numeric_limits<Bits>::max() : 0;
  for (int64_t row = 0; row < rows.rows; ++row) {
    const int64_t first = row * rows.row_stride;
    const auto at = [&](int64_t place) { return first + place * rows.stride; };
    Entry<Key>* entries = workspace.data();
    for (int64_t i = 0; i < rows.length; ++i) {
      Bits bits;
      std::memcpy(&bits, rows.values + at(i) * sizeof(Bits), sizeof(Bits));
      entries[i] = {static_cast<Bits>(ordered(bits, rows.kind, infinity) ^ flip), static_cast<uint32_t>(i)};
    }
    if (rows.length <= kShortRow) {
      std::sort(entries, entries + rows.length);
    } else {
      entries = radix_sort(entries, entries + rows.length, rows.length, sizeof(Bits));
    }
    for (int64_t i = 0; i < rows.extent; ++i) {
      const int64_t from = at(i < rows.length ? entries[i].place : i);
      copy_element(rows.sorted_values + at(i) * sizeof(Bits), rows.values + from * sizeof(Bits), sizeof(Bits));
      copy_element(rows.sorted_index + at(i) * rows.index_bytes, rows.index + from * rows.index_bytes,
                   rows.index_bytes);
    }
  }
}

}  // namespace

void sort_rows(const char* values, const char* index, char* sorted_values, char* sorted_index, int64_t rows,
               int64_t length, int64_t extent, int64_t row_stride, int64_t stride, int32_t kind, int32_t value_bytes,
               int32_t index_bytes, int32_t descending) {
  const SortedRows all{values,     index,  sorted_values,
                       sorted_index, rows, std::clamp<int64_t>(length, 0, extent),
                       extent,     row_stride, stride,
                       static_cast<char>(kind), static_cast<size_t>(index_bytes), descending != 0};
  switch (value_bytes) {
    case 1: sort_rows_of<uint8_t>(all); break;
    case 2: sort_rows_of<uint16_t>(all); break;
    case 4: sort_rows_of<uint32_t>(all); break;
    default: sort_rows_of<uint64_t>(all);
  }
}

}  // namespace inductor_npu
