// Runs functions of shared libraries on memory that comes through a pipe. Built for another processor, and emulated.
//
// Requests on standard input, answers on standard output, all numbers of 8 bytes, little endian:
//   0, path, function, constant: loads a library     -> the function's address (0: there is none), then the constant,
//                                                       which is {length, bytes}, or a length of 0 if there is none
//   1, function, buffers, relocations, slots: calls  -> its result (32 bits), then the buffers' bytes
// A text or buffer is its length and its bytes; a relocation: buffer, offset of a pointer, buffer, offset it points to;
// a slot (an argument, at most 8): the buffer it points into, -1 for a number, -2 for scratch memory; and the offset or
// the number.
#include <dlfcn.h>
#include <sys/mman.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "kernel_sort.h"

extern "C" __attribute__((visibility("default"), used)) void npu_sort_rows(
    const char* values, const char* index, char* sorted_values, char* sorted_index, int64_t rows, int64_t length,
    int64_t extent, int64_t row_stride, int64_t stride, int32_t kind, int32_t value_bytes, int32_t index_bytes,
    int32_t descending) {
  inductor_npu::sort_rows(values, index, sorted_values, sorted_index, rows, length, extent, row_stride, stride, kind,
                          value_bytes, index_bytes, descending);
}

namespace {

constexpr size_t kAlignment = 512;  // of the allocator whose memory comes here
constexpr size_t kSlots = 8;
constexpr size_t kScratchBytes = 64 << 20;

void read_bytes(void* target, size_t count) {
  if (std::fread(target, 1, count, stdin) != count) {
    std::exit(0);  // whoever asked is gone
  }
}

uint64_t read_number() {
  uint64_t number;
  read_bytes(&number, sizeof(number));
  return number;
}

std::string read_text() {
  std::string text(read_number(), '\0');
  read_bytes(text.data(), text.size());
  return text;
}

void write_number(uint64_t number) { std::fwrite(&number, sizeof(number), 1, stdout); }

void load() {
  const std::string path = read_text(), function = read_text(), constant = read_text();
  void* library = dlopen(path.c_str(), RTLD_LAZY);
  if (library == nullptr) {
    std::fprintf(stderr, "%s\n", dlerror());
  }
  write_number(library == nullptr ? 0 : reinterpret_cast<uint64_t>(dlsym(library, function.c_str())));
  const auto* bytes = library == nullptr ? nullptr : static_cast<const char*>(dlsym(library, constant.c_str()));
  uint64_t count = 0;
  if (bytes != nullptr) {
    std::memcpy(&count, bytes, sizeof(count));
  }
  write_number(count);
  if (count > 0) {
    std::fwrite(bytes + sizeof(count), 1, count, stdout);
  }
}

// Behind it nothing is mapped.
char* scratch() {
  static auto* memory = static_cast<char*>(
      mmap(nullptr, 2 * kScratchBytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0));
  static const int made = mprotect(memory, kScratchBytes, PROT_READ | PROT_WRITE);
  return made == 0 ? memory : nullptr;
}

struct Buffer {
  char* bytes;
  size_t size;
};

void call() {
  using Function = int32_t (*)(uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t);
  const auto function = reinterpret_cast<Function>(read_number());
  std::vector<Buffer> buffers(read_number());
  for (Buffer& buffer : buffers) {
    buffer.size = read_number();
    buffer.bytes = static_cast<char*>(std::aligned_alloc(kAlignment, (buffer.size / kAlignment + 1) * kAlignment));
    read_bytes(buffer.bytes, buffer.size);
  }
  for (uint64_t left = read_number(); left > 0; --left) {
    uint64_t numbers[4];
    read_bytes(numbers, sizeof(numbers));
    const char* pointer = buffers.at(numbers[2]).bytes + numbers[3];
    std::memcpy(buffers.at(numbers[0]).bytes + numbers[1], &pointer, sizeof(pointer));
  }
  uint64_t slots[kSlots] = {};
  const uint64_t count = read_number();
  for (uint64_t i = 0; i < count; ++i) {
    const auto buffer = static_cast<int64_t>(read_number());
    const uint64_t number = read_number();
    char* base = buffer == -1 ? nullptr : buffer == -2 ? scratch() : buffers.at(buffer).bytes;
    slots[i] = reinterpret_cast<uint64_t>(base) + number;
  }
  const int32_t result =
      function(slots[0], slots[1], slots[2], slots[3], slots[4], slots[5], slots[6], slots[7]);
  write_number(static_cast<uint32_t>(result));
  for (const Buffer& buffer : buffers) {
    std::fwrite(buffer.bytes, 1, buffer.size, stdout);
    std::free(buffer.bytes);
  }
}

}  // namespace

int main() {
  for (;;) {
    switch (read_number()) {
      case 0: load(); break;
      case 1: call(); break;
      default: return 1;
    }
    std::fflush(stdout);
  }
}
