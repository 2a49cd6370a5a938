// The one operator (aclnn) that torch_npu calls past PyTorch's dispatcher, where ../eager.py would have it run on the
// CPU: HCCL's process group pads what it gathers to 512 bytes.
#include <algorithm>
#include <cstring>

#include "acl/acl.h"
#include "standin.h"

// What the handles of aclnn are, by their own names.
struct aclTensor {
  std::vector<int64_t> sizes, strides;
  aclDataType type;
  char* first;
};
struct aclScalar {
  bool is_zero;
};
struct aclIntArray {
  std::vector<int64_t> values;
};
struct aclOpExecutor {
  std::function<void()> task;
};

namespace standin {
namespace {

using Index = std::vector<int64_t>;

size_t bytes_of(aclDataType type) {
  switch (type) {
    case ACL_BOOL:
    case ACL_INT8:
    case ACL_UINT8: return 1;
    case ACL_INT16:
    case ACL_UINT16:
    case ACL_FLOAT16:
    case ACL_BF16: return 2;
    case ACL_INT32:
    case ACL_UINT32:
    case ACL_FLOAT: return 4;
    case ACL_INT64:
    case ACL_UINT64:
    case ACL_DOUBLE: return 8;
    default: return 0;
  }
}

// The elements of `shape`, the last index fastest.
template <typename Visit>
void for_each(const Index& shape, Visit visit) {
  Index index(shape.size(), 0);
  if (std::find(shape.begin(), shape.end(), 0) != shape.end()) return;
  while (true) {
    visit(index);
    size_t axis = shape.size();
    while (axis && ++index[axis - 1] == shape[axis - 1]) index[--axis] = 0;
    if (!axis) return;
  }
}

char* element(const aclTensor& tensor, const Index& index, size_t size) {
  int64_t offset = 0;
  for (size_t axis = 0; axis < index.size(); ++axis) offset += index[axis] * tensor.strides[axis];
  return tensor.first + offset * static_cast<int64_t>(size);
}

void pad_with_zeros(const aclTensor& from, const Index& before, const aclTensor& to, size_t size) {
  for_each(to.sizes, [&](const Index& index) { std::memset(element(to, index, size), 0, size); });
  for_each(from.sizes, [&](const Index& index) {
    Index place = index;
    for (size_t axis = 0; axis < place.size(); ++axis) place[axis] += before[axis];
    std::memcpy(element(to, place, size), element(from, index, size), size);
  });
}

}  // namespace
}  // namespace standin

using namespace standin;

extern "C" {

aclTensor* aclCreateTensor(const int64_t* sizes, uint64_t axes, aclDataType type, const int64_t* strides,
                           int64_t offset, aclFormat, const int64_t*, uint64_t, void* storage) {
  char* first = static_cast<char*>(storage) + offset * static_cast<int64_t>(bytes_of(type));
  return new aclTensor{{sizes, sizes + axes}, {strides, strides + axes}, type, first};
}
aclScalar* aclCreateScalar(void* value, aclDataType type) {
  auto bytes = static_cast<const char*>(value);
  return new aclScalar{std::all_of(bytes, bytes + bytes_of(type), [](char byte) { return byte == 0; })};
}
aclIntArray* aclCreateIntArray(const int64_t* values, uint64_t count) {
  return new aclIntArray{{values, values + count}};
}
int aclDestroyTensor(const aclTensor* tensor) { return delete tensor, kSuccess; }
int aclDestroyScalar(const aclScalar* scalar) { return delete scalar, kSuccess; }
int aclDestroyIntArray(const aclIntArray* array) { return delete array, kSuccess; }

// `pads`: how many elements before and behind, the last axis first, as PyTorch has them.
int aclnnConstantPadNdGetWorkspaceSize(const aclTensor* from, const aclIntArray* pads, const aclScalar* value,
                                       aclTensor* to, uint64_t* workspace, aclOpExecutor** executor) {
  size_t size = bytes_of(from->type), axes = from->sizes.size();
  if (!value->is_zero || !size) return fail(kNotImplemented, "ConstantPadNd is for zeros of common types");
  Index before(axes, 0), sizes = from->sizes;
  for (size_t i = 0; i < pads->values.size(); ++i) {
    size_t axis = axes - 1 - i / 2;
    if (i / 2 >= axes || pads->values[i] < 0) return fail(kInvalidParameter, "ConstantPadNd: no such padding");
    sizes[axis] += pads->values[i];
    if (i % 2 == 0) before[axis] = pads->values[i];
  }
  if (to->sizes != sizes || to->type != from->type)
    return fail(kInvalidParameter, "ConstantPadNd: the result is not of the padded size");
  *workspace = 0;
  *executor = new aclOpExecutor{[=, from = *from, to = *to] { pad_with_zeros(from, before, to, size); }};
  return kSuccess;
}

int aclnnConstantPadNd(void*, uint64_t, aclOpExecutor* executor, aclrtStream stream) {
  stream_of(stream).push(std::move(executor->task));
  delete executor;
  return kSuccess;
}

}  // extern "C"
