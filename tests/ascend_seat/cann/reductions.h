// Data types of HCCL, and arithmetic on them.
#pragma once

#include <cstddef>

#include "third_party/hccl/inc/hccl/hccl_types.h"

namespace standin {

// Bytes of an element; 0 for a type that is not known.
size_t size_of(HcclDataType type);
const char* name_of(HcclDataType type);
const char* name_of(HcclReduceOp op);
bool can_reduce(HcclDataType type, HcclReduceOp op);
// into[i] = into[i] op from[i]. Rounded to the type each time, as the chip reduces; integers wrap.
void reduce_into(void* into, const void* from, size_t count, HcclDataType type, HcclReduceOp op);

}  // namespace standin
