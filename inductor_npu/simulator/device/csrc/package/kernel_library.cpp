// Loads kernels without a file that somebody could change after it was verified.
#include "package/kernel_library.h"

#include <dlfcn.h>
#include <inductor_npu/package.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <map>
#include <mutex>

#include "package/sha256.h"

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

}  // namespace

std::vector<PackagedKernel> load_kernels(const Contents& contents) {
  std::map<std::string, void*> libraries;
  std::vector<PackagedKernel> kernels;
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
    kernels.push_back({kernel, facts.at("arguments").string()});
  }
  return kernels;
}

}  // namespace inductor_npu::package
