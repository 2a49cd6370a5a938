// Device memory, pinned memory, copies.
#include <sys/mman.h>

#include <cstdlib>
#include <cstring>
#include <map>
#include <vector>

#include "acl/acl.h"
#include "standin.h"

namespace standin {
namespace {

constexpr size_t kAlignment = 512;
constexpr size_t kTotal = size_t{8} << 30;
constexpr int kFresh = 0xFF;

struct Block {
  size_t bytes;
  int device;
};

struct Blocks {
  std::mutex lock;
  std::map<char*, Block> live;
  size_t used[kMostDevices] = {};

  // The block that holds `address`, or live.end().
  std::map<char*, Block>::iterator around(const void* address) {
    auto next = live.upper_bound(static_cast<char*>(const_cast<void*>(address)));
    if (next == live.begin()) return live.end();
    auto block = std::prev(next);
    return static_cast<const char*>(address) < block->first + block->second.bytes ? block : live.end();
  }
};

// Never destroyed: torch_npu frees memory while the process ends.
Blocks& device_blocks() {
  static Blocks* blocks = new Blocks;
  return *blocks;
}
Blocks& pinned_blocks() {
  static Blocks* blocks = new Blocks;
  return *blocks;
}

int allocate(void** result, size_t bytes) {
  if (!result || !bytes) return fail(kInvalidParameter, "allocation of %zu bytes", bytes);
  int device = current_device();
  if (device < 0) return fail(kNoContext, "allocation before a device was chosen");
  Blocks& blocks = device_blocks();
  std::lock_guard<std::mutex> guard(blocks.lock);
  if (blocks.used[device] + bytes > kTotal) return kOutOfMemory;  // torch_npu's allocator tries again: no message
  char* block = static_cast<char*>(std::aligned_alloc(kAlignment, (bytes + kAlignment - 1) / kAlignment * kAlignment));
  if (!block) return kOutOfMemory;
  std::memset(block, kFresh, bytes);
  blocks.live[block] = {bytes, device};
  blocks.used[device] += bytes;
  *result = block;
  return kSuccess;
}

int release(void* address) {
  Blocks& blocks = device_blocks();
  {
    std::lock_guard<std::mutex> guard(blocks.lock);
    auto block = blocks.live.find(static_cast<char*>(address));
    if (block == blocks.live.end()) return fail(kInvalidParameter, "%p is not the start of a block", address);
    blocks.used[block->second.device] -= block->second.bytes;
    blocks.live.erase(block);
  }
  std::free(address);
  return kSuccess;
}

int allocate_pinned(void** result, size_t bytes) {
  size_t room = (bytes + kAlignment) / kAlignment * kAlignment;
  char* block = static_cast<char*>(std::aligned_alloc(kAlignment, room));
  if (!block) return kOutOfMemory;
  Blocks& blocks = pinned_blocks();
  std::lock_guard<std::mutex> guard(blocks.lock);
  blocks.live[block] = {room, 0};
  *result = block;
  return kSuccess;
}

int release_pinned(void* address) {
  Blocks& blocks = pinned_blocks();
  {
    std::lock_guard<std::mutex> guard(blocks.lock);
    if (!blocks.live.erase(static_cast<char*>(address))) return fail(kInvalidParameter, "%p is not pinned", address);
  }
  std::free(address);
  return kSuccess;
}

// In the order of the stream. Memory of the host that is not pinned belongs to its owner as soon as the call returns.
int copy_later(void* to, size_t room, const void* from, size_t bytes, void* handle) {
  std::string problem = overrun(to, room, from, bytes);
  if (!problem.empty()) return fail(kInvalidParameter, "%s", problem.c_str());
  Stream& stream = stream_of(handle);
  bool owned = is_device(from, bytes) || is_pinned(from);
  if (!owned) {
    auto kept = std::make_shared<std::vector<char>>(static_cast<const char*>(from), static_cast<const char*>(from) + bytes);
    stream.push([=] { std::memcpy(to, kept->data(), bytes); });
  } else {
    stream.push([=] { std::memmove(to, from, bytes); });
  }
  if (is_device(to, bytes) || is_pinned(to)) return kSuccess;
  stream.wait();
  Trouble trouble = stream.trouble();
  return trouble.error ? fail(trouble.error, "%s", trouble.why.c_str()) : kSuccess;
}

int fill(void* to, size_t room, int value, size_t bytes, Stream* stream) {
  if (bytes > room || !is_device(to, bytes)) return fail(kInvalidParameter, "a fill of %zu bytes leaves its block", bytes);
  if (!stream) {
    std::memset(to, value, bytes);
    return kSuccess;
  }
  stream->push([=] { std::memset(to, value, bytes); });
  return kSuccess;
}

}  // namespace

bool is_device(const void* address, size_t bytes) {
  Blocks& blocks = device_blocks();
  std::lock_guard<std::mutex> guard(blocks.lock);
  auto block = blocks.around(address);
  return block != blocks.live.end() && static_cast<const char*>(address) + bytes <= block->first + block->second.bytes;
}

bool is_pinned(const void* address) {
  Blocks& blocks = pinned_blocks();
  std::lock_guard<std::mutex> guard(blocks.lock);
  return blocks.around(address) != blocks.live.end();
}

std::string overrun(const void* to, size_t room, const void* from, size_t bytes) {
  if (bytes > room) return "a copy of " + std::to_string(bytes) + " bytes into " + std::to_string(room);
  Blocks& blocks = device_blocks();
  std::lock_guard<std::mutex> guard(blocks.lock);
  for (const void* address : {to, from}) {
    auto block = blocks.around(address);
    if (block != blocks.live.end() && static_cast<const char*>(address) + bytes > block->first + block->second.bytes)
      return std::string("a copy ") + (address == to ? "to" : "from") + " device memory leaves its block by " +
             std::to_string(static_cast<const char*>(address) + bytes - (block->first + block->second.bytes)) + " bytes";
  }
  return "";
}

}  // namespace standin

using namespace standin;

extern "C" {

aclError aclrtMalloc(void** result, size_t bytes, aclrtMemMallocPolicy) { return allocate(result, bytes); }
aclError aclrtMallocAlign32(void** result, size_t bytes, aclrtMemMallocPolicy) { return allocate(result, bytes); }
aclError aclrtFree(void* address) { return release(address); }
aclError aclrtMallocHost(void** result, size_t bytes) { return allocate_pinned(result, bytes); }
aclError aclrtFreeHost(void* address) { return release_pinned(address); }

aclError aclrtGetMemInfo(aclrtMemAttr, size_t* free, size_t* total) {
  int device = current_device();
  if (device < 0) return fail(kNoContext, "memory asked of no device");
  std::lock_guard<std::mutex> guard(device_blocks().lock);
  *total = kTotal;
  *free = kTotal - device_blocks().used[device];
  return kSuccess;
}

aclError aclrtMemcpy(void* to, size_t room, const void* from, size_t bytes, aclrtMemcpyKind) {
  std::string problem = overrun(to, room, from, bytes);
  if (!problem.empty()) return fail(kInvalidParameter, "%s", problem.c_str());
  std::memmove(to, from, bytes);
  return kSuccess;
}

aclError aclrtMemcpyAsync(void* to, size_t room, const void* from, size_t bytes, aclrtMemcpyKind, aclrtStream stream) {
  return copy_later(to, room, from, bytes, stream);
}

aclError aclrtMemset(void* to, size_t room, int32_t value, size_t bytes) { return fill(to, room, value, bytes, nullptr); }
aclError aclrtMemsetAsync(void* to, size_t room, int32_t value, size_t bytes, aclrtStream stream) {
  return fill(to, room, value, bytes, &stream_of(stream));
}

int32_t rtMalloc(void** result, uint64_t bytes, uint32_t, uint16_t) { return allocate(result, bytes); }
int32_t rtFree(void* address) { return release(address); }
int32_t rtMallocHost(void** result, uint64_t bytes, uint16_t) { return allocate_pinned(result, bytes); }
int32_t rtFreeHost(void* address) { return release_pinned(address); }
int32_t rtMemcpy(void* to, uint64_t room, const void* from, uint64_t bytes, int) {
  return aclrtMemcpy(to, room, from, bytes, ACL_MEMCPY_DEFAULT);
}

}  // extern "C"
