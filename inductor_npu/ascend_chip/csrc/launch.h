// What a launch of a kernel of Ascend's Triton is made of, whoever asks for it: the library's functions that are called,
// the kernel's facts, its arguments as bytes, and the place in torch_npu's queue.
//
// Neither torch_npu's nor CANN's headers are needed: of torch_npu one function is called, of CANN a few of C, which are
// looked up when the library is loaded.
#pragma once

#include <dlfcn.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <functional>
#include <string>
#include <type_traits>
#include <vector>

#include "profiling.h"

namespace at_npu {
namespace native {
// Of torch_npu/csrc/framework/OpCommand.h: runs `func` when torch_npu's queue of operators comes to it, at once where
// TASK_QUEUE_ENABLE=0. Its result is an error code of CANN.
class OpCommand {
 public:
  static void RunOpApiV2(const std::string& name, const std::function<int()>& func, bool sync);
};
}  // namespace native
}  // namespace at_npu

namespace ascend {

// -- CANN's runtime (rt.h) -------------------------------------------------------------------------------------------
struct Binary {
  uint32_t magic, version;
  const void* data;
  uint64_t length;
};
constexpr uint32_t kCubeMagic = 0x43554245, kVectorMagic = 0x41415246;  // RT_DEV_BINARY_MAGIC_ELF, _ELF_AIVEC

struct Runtime {
  int (*launch)(const void* kernel, uint32_t blocks, void* arguments, uint32_t bytes, void* description, void* stream);
  int (*synchronisation_address)(uint64_t* address, uint32_t* length);
  int (*register_binary)(const Binary* binary, void** handle);
  int (*register_function)(void* binary, const void* kernel, const char* kernel_name, const void* symbol, uint32_t mode);
};
inline Runtime runtime;

inline void* function_of_cann(const char* name) {
  // Loaded by torch_npu already; which of them has a function depends on CANN's version.
  for (const char* library : {"libruntime.so", "libascendcl.so", "libprofapi.so"})
    if (void* handle = dlopen(library, RTLD_NOW))
      if (void* found = dlsym(handle, name)) return found;
  return nullptr;
}

// Finds CANN's functions; the name of one that is missing, else null.
inline const char* install_runtime() {
  const char* missing = nullptr;
  auto find = [&](auto& function, const char* name) {
    function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(function_of_cann(name));
    if (!function) missing = name;
  };
  find(runtime.launch, "rtKernelLaunch");
  find(runtime.synchronisation_address, "rtGetC2cCtrlAddr");
  find(runtime.register_binary, "rtDevBinaryRegister");
  find(runtime.register_function, "rtFunctionRegister");
  profiling::install(function_of_cann);
  return missing;
}

// -- a kernel --------------------------------------------------------------------------------------------------------
struct KernelFacts {
  std::string name;
  long workspace_bytes = 0;   // of a block
  unsigned most_blocks = 0;   // 0: no limit
  bool synchronises = false;  // its first argument is an address for synchronisation between cores
  profiling::TaskType task_type = profiling::kVector;
  unsigned mix_ratio = 0;  // vector cores per cube core of a mixed kernel, for the profiler
};

// Arguments in the order and at the offsets that generate_npu_wrapper_src of Ascend's Triton packs them.
class Packed {
 public:
  // `workspace`: its address, or 0.
  Packed(const KernelFacts& kernel, uint64_t workspace) {
    if (kernel.synchronises) push<uint64_t>(0);  // known when it is launched
    push<uint64_t>(0);  // a lock between blocks, for kernels that have a launcher of their own
    push(workspace);
  }
  template <typename T>
  void push(T value, size_t alignment = alignof(T)) {
    bytes_.resize((bytes_.size() + alignment - 1) / alignment * alignment);
    const char* begin = reinterpret_cast<const char*>(&value);
    bytes_.insert(bytes_.end(), begin, begin + sizeof value);
  }
  template <typename T>
  static bool fits(long long number) {
    return static_cast<long long>(static_cast<T>(number)) == number;
  }
  // An integer of the kernel's type T; false where `number` does not fit.
  template <typename T>
  bool push_integer(long long number) {
    if (fits<T>(number)) push(static_cast<T>(number), std::max<size_t>(sizeof(T), 4));
    return fits<T>(number);
  }
  // All bytes, to the size of a struct that holds pointers.
  std::vector<char> take() {
    bytes_.resize((bytes_.size() + 7) / 8 * 8);
    return std::move(bytes_);
  }

 private:
  std::vector<char> bytes_;
};

// Queues the launch of a grid that is not empty. What the handler holds is freed by the thread that runs it. Throws what
// torch_npu throws.
inline void enqueue(const KernelFacts& facts, const void* kernel, void* stream, unsigned long blocks, Packed arguments) {
  unsigned long most = facts.most_blocks ? facts.most_blocks : ~0u;
  auto launched = static_cast<unsigned>(std::min(blocks, most));
  auto launch = [kernel, stream, launched, packed = arguments.take(), synchronises = facts.synchronises,
                 report = profiling::Report{facts.name, facts.task_type, facts.mix_ratio}]() -> int {
    std::vector<char> bytes = packed;
    if (synchronises) {
      uint64_t address;
      uint32_t length;
      if (int error = runtime.synchronisation_address(&address, &length)) return error;
      std::memcpy(bytes.data(), &address, sizeof address);
    }
    profiling::Launch reported(report, launched);
    return runtime.launch(kernel, launched, bytes.data(), static_cast<uint32_t>(bytes.size()), nullptr, stream);
  };
  at_npu::native::OpCommand::RunOpApiV2(facts.name, launch, false);
}

}  // namespace ascend
