// Sorts of rows of a tile, which kernels call.
#pragma once

#include <cstddef>
#include <cstdint>

namespace inductor_npu {

struct SortedRows {
  const char *values, *index;
  char *sorted_values, *sorted_index;
  int64_t rows, length, extent;
  int64_t row_stride, stride;  // in elements
  char kind;
  size_t index_bytes;
  bool descending;
};

// The first `length` of the `extent` elements of each row in order, and `index` in the same order; what lies behind
// stays where it is. Equal elements stay in order, NaN is larger than all others. `kind`: f float (of 2, 4 or 8 bytes),
// i integer, u unsigned integer.
void sort_rows(const char* values, const char* index, char* sorted_values, char* sorted_index, int64_t rows,
               int64_t length, int64_t extent, int64_t row_stride, int64_t stride, int32_t kind, int32_t value_bytes,
               int32_t index_bytes, int32_t descending);

}  // namespace inductor_npu
