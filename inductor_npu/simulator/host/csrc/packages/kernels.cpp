// Kernels of packages: shared libraries, loaded without a file that somebody could change after it was verified.
#include <c10/util/BFloat16.h>
#include <c10/util/Half.h>
#include <c10/util/SmallVector.h>
#include <dlfcn.h>
#include <inductor_npu/package.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <map>
#include <mutex>

#include "graph.h"
#include "host_kernel.h"
#include "package/platform.h"
#include "package/sha256.h"
#include "runtime.h"

namespace inductor_npu::package {
namespace {

[[noreturn]] void cannot_load(const std::string& reason) {
  throw PackageError("its kernels cannot be loaded: " + reason);
}

// The descriptor stays open, and the library loaded: work that is queued anywhere may need its code, and the dynamic
// linker takes a later descriptor of the same number for the same library.
void* load_from_memory(const std::string& bytes) {
  const int descriptor = ::memfd_create("inductor-npu kernels", MFD_CLOEXEC);
  if (descriptor < 0) {
    cannot_load(std::strerror(errno));
  }
  for (size_t done = 0; done < bytes.size();) {
    const ssize_t count = ::write(descriptor, bytes.data() + done, bytes.size() - done);
    if (count < 0 && errno != EINTR) {
      const std::string reason = std::strerror(errno);
      ::close(descriptor);
      cannot_load(reason);
    }
    done += count > 0 ? static_cast<size_t>(count) : 0;
  }
  const std::string path = "/proc/self/fd/" + std::to_string(descriptor);
  void* library = ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    const std::string reason = ::dlerror();
    ::close(descriptor);
    cannot_load(reason);
  }
  return library;
}

void* load_once(const std::string& bytes) {
  static std::mutex loading;
  static auto* libraries = new std::map<std::string, void*>();
  std::lock_guard<std::mutex> lock(loading);
  void*& library = (*libraries)[sha256(bytes.data(), bytes.size())];
  if (library == nullptr) {
    library = load_from_memory(bytes);
  }
  return library;
}

template <class T>
uint64_t to_slot(T value) {
  uint64_t slot = 0;
  std::memcpy(&slot, &value, sizeof(value));
  return slot;
}

// An argument of a kernel. `kind` is a letter as in _C.KernelLauncher.
uint64_t argument_slot(char kind, const c10::IValue& value, const Kernel& kernel) {
  if (kind == 'p') {
    if (value.isNone()) {
      return 0;
    }
    const at::Tensor& tensor = value.toTensor();
    TORCH_CHECK(tensor.device().type() == kNpu, "kernel ", kernel.name, " takes a tensor on npu, not on ",
                tensor.device());
    return reinterpret_cast<uint64_t>(tensor.mutable_data_ptr());
  }
  const double real = value.isDouble() ? value.toDouble() : static_cast<double>(value.isBool() ? value.toBool() : value.toInt());
  switch (kind) {
    case 'f': return to_slot(static_cast<float>(real));
    case 'd': return to_slot(real);
    case 'e': return to_slot(c10::Half(static_cast<float>(real)).x);
    case 'y': return to_slot(c10::BFloat16(static_cast<float>(real)).x);
    default: break;
  }
  const int64_t integer = value.isBool() ? static_cast<int64_t>(value.toBool()) : value.toInt();
  const auto fits = [&](int64_t narrowed) {
    TORCH_CHECK(narrowed == integer, "kernel ", kernel.name, ": ", integer, " does not fit an argument's type");
  };
  switch (kind) {
    case 'b': return integer != 0;
    case 'c': fits(static_cast<int8_t>(integer)); return to_slot(static_cast<int8_t>(integer));
    case 'h': fits(static_cast<int16_t>(integer)); return to_slot(static_cast<int16_t>(integer));
    case 'i': fits(static_cast<int32_t>(integer)); return to_slot(static_cast<int32_t>(integer));
    case 'C': fits(static_cast<uint8_t>(integer)); return to_slot(static_cast<uint8_t>(integer));
    case 'H': fits(static_cast<uint16_t>(integer)); return to_slot(static_cast<uint16_t>(integer));
    case 'I': fits(static_cast<uint32_t>(integer)); return to_slot(static_cast<uint32_t>(integer));
    default: return static_cast<uint64_t>(integer);  // l, L
  }
}

// `arguments`: how the kernel takes them, one letter each, as in _C.KernelLauncher.
class PackagedHostKernel final : public PackagedKernel {
 public:
  PackagedHostKernel(const Kernel* kernel, std::string arguments) : kernel_(kernel), kinds_(std::move(arguments)) {}

  size_t argument_count() const override { return kinds_.size(); }

  void launch(const std::array<int64_t, 3>& grid, c10::ArrayRef<c10::IValue> arguments,
              c10::Device device) const override {
    Launch launch{};
    launch.kernel = kernel_;
    if (!set_grid(launch, {grid[0], grid[1], grid[2]})) {
      return;
    }
    c10::SmallVector<uint64_t, 24> slots;
    for (size_t i = 0; i < arguments.size(); ++i) {
      slots.push_back(argument_slot(kinds_[i], arguments[i], *kernel_));
    }
    launch.args = slots.data();
    launch.arg_count = slots.size();
    driver::Stream* stream = native(current_stream(device.index()));
    if (CapturedGraph* graph = capturing_graph(stream); C10_UNLIKELY(graph != nullptr)) {
      note_pointers(*graph, slots);
    }
    driver::launch(stream, launch);
  }

 private:
  // Tells a graph that is being captured which memory the launch will use each time.
  void note_pointers(CapturedGraph& graph, c10::ArrayRef<uint64_t> slots) const {
    for (size_t i = 0; i < slots.size(); ++i) {
      if (kinds_[i] == 'p') {
        graph.uses(reinterpret_cast<const void*>(slots[i]), "kernel " + kernel_->name);
      }
    }
  }

  const Kernel* kernel_;
  std::string kinds_;
};

}  // namespace

Kernels load_kernels(const Contents& contents, c10::Device /*device*/) {
  std::map<std::string, void*> libraries;
  Kernels kernels;
  for (const Json& facts : contents.manifest.at("kernels").array()) {
    const std::string& name = facts.at("library").string();
    void*& library = libraries[name];
    if (library == nullptr) {
      library = load_once(contents.member(name));
    }
    const std::string& entry = facts.at("entry").string();
    void* address = ::dlsym(library, entry.c_str());
    if (address == nullptr) {
      cannot_load("there is no " + entry);
    }
    const Kernel* kernel = register_kernel(facts.at("name").string(), reinterpret_cast<uint64_t>(address),
                                           facts.at("scratch_bytes").integer(), facts.at("work_per_program").integer(),
                                           facts.at("messages").strings());
    kernels.push_back(std::make_shared<PackagedHostKernel>(kernel, facts.at("arguments").string()));
  }
  return kernels;
}

}  // namespace inductor_npu::package
