// Kernels: shared objects for the host that the stand-in for bishengir-compile made (../compiler.py), and launches.
#include <dlfcn.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <map>
#include <vector>

#include "acl/acl.h"
#include "standin.h"

namespace standin {
namespace {

constexpr size_t kArena = size_t{512} << 20;  // for the tiles of one program; what is not touched costs nothing
constexpr size_t kWorkspace = size_t{1} << 24;

// As inductor_npu.ascend.execute.native makes it.
using Launch = void (*)(uint64_t* words, int64_t begin, int64_t end, int64_t step, int32_t* grid, char* arena,
                        char* arena_end, int64_t* current, int64_t seed);

// A kernel's tiles are at addresses that its object keeps in globals: one launch of it at a time.
struct Kernel {
  std::string name;
  Launch launch;
  std::vector<std::string> leading;     // what the compiler put before the arguments, as types of MLIR
  std::vector<std::string> parameters;  // the arguments
  bool synchronises;                    // whether launches pass an address for synchronisation first
  std::mutex running;
};

struct Kernels {
  std::mutex lock;
  std::map<const void*, std::shared_ptr<Kernel>> by_stub;
};
Kernels& kernels() {
  static Kernels* all = new Kernels;
  return *all;
}

char* map(size_t bytes) {
  void* address = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  return address == MAP_FAILED ? nullptr : static_cast<char*>(address);
}

std::vector<std::string> words_of(const char* text) {
  std::vector<std::string> words;
  for (const char* at = text; *at;) {
    const char* end = std::strchr(at, '\n');
    words.emplace_back(at, end - at);
    at = end + 1;
  }
  return words;
}

// The packed arguments of triton-ascend's launcher (generate_npu_wrapper_src), field by field.
class Packed {
 public:
  Packed(const char* bytes, size_t size) : bytes_(bytes), size_(size) {}

  uint64_t next(size_t bytes, size_t alignment) {
    at_ = (at_ + alignment - 1) / alignment * alignment;
    uint64_t value = 0;
    if (at_ + bytes > size_) ok_ = false;
    else std::memcpy(&value, bytes_ + at_, bytes);
    at_ += bytes;
    return value;
  }
  bool is_used_up() const { return ok_ && (at_ + 7) / 8 * 8 == size_; }  // the size of a struct with pointers

 private:
  const char* bytes_;
  size_t size_, at_ = 0;
  bool ok_ = true;
};

void push_memory(std::vector<uint64_t>& words, const void* address, uint64_t elements) {
  uint64_t start = reinterpret_cast<uint64_t>(address);
  words.insert(words.end(), {start, start, 0, elements, 1});
}

int launch(const void* stub, uint32_t blocks, const void* arguments, uint32_t size, void* handle) {
  std::shared_ptr<Kernel> kernel;
  {
    std::lock_guard<std::mutex> guard(kernels().lock);
    auto found = kernels().by_stub.find(stub);
    if (found == kernels().by_stub.end()) return fail(kInvalidParameter, "launch of a kernel that was not registered");
    kernel = found->second;
  }
  Packed packed(static_cast<const char*>(arguments), size);
  uint64_t synchronisation = kernel->synchronises ? packed.next(8, 8) : 0;
  packed.next(8, 8);  // the lock
  packed.next(8, 8);  // the workspace, which the Linalg's own is put in the place of
  static char* workspace = map(kWorkspace);
  std::vector<uint64_t> words;
  for (const std::string& type : kernel->leading) {
    if (type.rfind("memref", 0) == 0) push_memory(words, workspace, kWorkspace);
    else words.push_back(synchronisation);
  }
  for (const std::string& type : kernel->parameters) {
    if (type.rfind("memref", 0) == 0) push_memory(words, reinterpret_cast<void*>(packed.next(8, 8)), uint64_t{1} << 40);
    else if (type == "i64" || type == "f64") words.push_back(packed.next(8, 8));
    else words.push_back(packed.next(type == "i8" ? 1 : type == "i16" ? 2 : 4, 4));
  }
  int32_t grid[3];
  for (int32_t& length : grid) length = static_cast<int32_t>(packed.next(4, 4));
  if (!packed.is_used_up())
    return fail(kInvalidParameter, "%s: its launcher packs %u bytes, its Linalg takes others", kernel->name.c_str(), size);
  if (static_cast<uint32_t>(grid[0] * grid[1] * grid[2]) != blocks)
    return fail(kInvalidParameter, "%s: %u blocks for a grid of %d x %d x %d", kernel->name.c_str(), blocks, grid[0], grid[1], grid[2]);
  stream_of(handle).push([kernel, words, grid = std::vector<int32_t>(grid, grid + 3), blocks]() mutable {
    std::lock_guard<std::mutex> guard(kernel->running);
    thread_local char* arena = map(kArena);
    int64_t current = 0;
    kernel->launch(words.data(), 0, blocks, 1, grid.data(), arena, arena + kArena, &current, 0);
  });
  return kSuccess;
}

}  // namespace
}  // namespace standin

using namespace standin;

extern "C" {

struct rtDevBinary {
  uint32_t magic, version;
  const void* data;
  uint64_t length;
};

int32_t rtDevBinaryRegister(const rtDevBinary* binary, void** handle) {
  int file = memfd_create("kernel", 0);
  if (file < 0 || write(file, binary->data, binary->length) != static_cast<ssize_t>(binary->length))
    return fail(kOutOfMemory, "a kernel of %llu bytes cannot be kept", static_cast<unsigned long long>(binary->length));
  // The file stays open: dlopen takes a library that is loaded for one of the same name, and numbers are used again.
  *handle = dlopen(("/proc/self/fd/" + std::to_string(file)).c_str(), RTLD_NOW | RTLD_LOCAL);
  return *handle ? kSuccess : fail(kInvalidParameter, "not a kernel for the host: %s", dlerror());
}

int32_t rtFunctionRegister(void* binary, const void* stub, const char*, const void* name, uint32_t) {
  auto text = [&](const char* symbol) { return static_cast<const char*>(dlsym(binary, symbol)); };
  const char *leading = text("standin_leading"), *parameters = text("standin_parameters"), *family = text("standin_family");
  void* function = dlsym(binary, "npu_launch");
  if (!function || !leading || !parameters || !family)
    return fail(kInvalidParameter, "%s was not made by the stand-in's compiler", static_cast<const char*>(name));
  auto kernel = std::make_shared<Kernel>();
  kernel->name = static_cast<const char*>(name);
  kernel->launch = reinterpret_cast<Launch>(function);
  kernel->leading = words_of(leading);
  kernel->parameters = words_of(parameters);
  kernel->synchronises = std::strcmp(family, "950") != 0;
  std::lock_guard<std::mutex> guard(kernels().lock);
  kernels().by_stub[stub] = kernel;
  return kSuccess;
}

int32_t rtKernelLaunch(const void* stub, uint32_t blocks, void* arguments, uint32_t size, void*, void* stream) {
  return launch(stub, blocks, arguments, size, stream);
}

int32_t rtGetC2cCtrlAddr(uint64_t* address, uint32_t* length) {
  static char area[64];
  *address = reinterpret_cast<uint64_t>(area);
  *length = sizeof area;
  return kSuccess;
}

}  // extern "C"
