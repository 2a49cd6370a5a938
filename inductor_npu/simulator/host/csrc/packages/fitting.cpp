// Whether a package fits this process, and what settings.py does in a process with Python.
#include <c10/core/DeviceType.h>
#include <inductor_npu/package.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <fstream>
#include <set>
#include <sstream>

#include "host_threads.h"
#include "package/platform.h"
#include "runtime.h"

namespace inductor_npu::package {
namespace {

#if defined(__x86_64__)
constexpr const char* kArchitecture = "x86_64";
#elif defined(__aarch64__)
constexpr const char* kArchitecture = "aarch64";
#else
constexpr const char* kArchitecture = "unknown";
#endif

// The instruction sets of this processor, in Linux's names.
std::set<std::string> processor_features() {
  std::ifstream facts("/proc/cpuinfo");
  for (std::string line; std::getline(facts, line);) {
    const std::string name = line.substr(0, line.find_first_of("\t :"));
    if (name == "flags" || name == "Features") {
      std::istringstream words(line.substr(line.find(':') + 1));
      return {std::istream_iterator<std::string>(words), {}};
    }
  }
  return {};
}

std::string variable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

int64_t integer_variable(const char* name, int64_t otherwise, int64_t low, int64_t high) {
  const std::string text = variable(name);
  if (text.empty()) {
    return otherwise;
  }
  int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value < low || value > high) {
    throw PackageError(std::string(name) + "=" + text + " is not a whole number from " + std::to_string(low) + " to " +
                       std::to_string(high));
  }
  return value;
}

// Bytes of a size such as 512MiB, 8G or 1.5gb; 0 if it is none.
size_t parse_size(const std::string& text) {
  double number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc()) {
    return 0;
  }
  std::string unit;
  for (const char* at = end; at != text.data() + text.size(); ++at) {
    if (*at != ' ') {
      unit.push_back(static_cast<char>(std::tolower(static_cast<unsigned char>(*at))));
    }
  }
  static constexpr std::string_view scales = "kmgt";
  const size_t scale = unit.empty() ? std::string_view::npos : scales.find(unit[0]);
  const std::string rest = scale == std::string_view::npos ? unit : unit.substr(1);
  if (rest != "" && rest != "b" && rest != "ib") {
    return 0;
  }
  return static_cast<size_t>(std::ldexp(number, scale == std::string_view::npos ? 0 : 10 * (static_cast<int>(scale) + 1)));
}

size_t memory_of_a_device(const Json& target, int64_t devices) {
  if (const std::string text = variable("INDUCTOR_NPU_SIM_MEMORY"); !text.empty()) {
    const size_t size = parse_size(text);
    if (size == 0) {
      throw PackageError("INDUCTOR_NPU_SIM_MEMORY=" + text + " is not a size in bytes, such as 512MiB or 8GiB");
    }
    return size;
  }
  // All devices together leave half of the host's memory to the rest of the host.
  const auto host = static_cast<size_t>(::sysconf(_SC_PAGE_SIZE)) * static_cast<size_t>(::sysconf(_SC_PHYS_PAGES));
  const size_t share = host / 2 / static_cast<size_t>(devices);
  const Json& memory = target.at("memory");
  return memory.is_null() ? share : std::min(share, static_cast<size_t>(memory.integer()));
}

void check_processor(const Json& machine) {
  const std::string& architecture = machine.at("architecture").string();
  if (architecture != kArchitecture) {
    throw PackageError("its kernels are for processors of kind " + architecture + ", and this one is " + kArchitecture);
  }
  const std::set<std::string> features = processor_features();
  for (const std::string& feature : machine.at("features").strings()) {
    if (features.count(feature) == 0) {
      throw PackageError("its kernels need a processor with " + feature +
                         ", which this one lacks: make the package on a machine like this one");
    }
  }
}

// Configures device npu for the manifest's target and the user's variables (INDUCTOR_NPU_SIM_DEVICES, _MEMORY and
// _THREADS), unless somebody has configured it. Throws PackageError for a variable that is none.
void configure_if_needed(const Json& manifest) {
  c10::register_privateuse1_backend("npu");  // as torch.utils.rename_privateuse1_backend does
  prefer_library_kernels();
  if (configuration().device_count > 0) {
    return;
  }
  const Json& target = manifest.at("target");
  Configuration settings;
  settings.target = target.at("name").string();
  settings.device_count = static_cast<int>(integer_variable("INDUCTOR_NPU_SIM_DEVICES", 1, 1, kMaxDevices));
  settings.memory_bytes = memory_of_a_device(target, settings.device_count);
  settings.vector_cores = static_cast<int>(target.at("vector_cores").integer());
  settings.max_grid = target.at("max_grid").integer();
  settings.more_devices = "INDUCTOR_NPU_SIM_DEVICES says how many devices are simulated";
  settings.more_memory = "INDUCTOR_NPU_SIM_MEMORY (such as 8GiB) sets the capacity";
  settings.no_more_memory = "The host itself has no more memory: device memory of the embedded NPU is host memory";
  ask_for_host_threads(static_cast<int>(integer_variable("INDUCTOR_NPU_SIM_THREADS", 0, 0, 4096)));
  configure(settings);
}

}  // namespace

void check_fits_platform(const Json& manifest) {
  const std::string& provider = manifest.at("provider").string();
  if (provider != "simulator") {
    throw PackageError("it is for provider " + provider + ", and device npu of this process is the embedded NPU");
  }
  const std::string& target = manifest.at("target").at("name").string();
  const std::string asked = variable("INDUCTOR_NPU_TARGET");
  const std::string present = configuration().device_count > 0 ? configuration().target : asked;
  if (!present.empty() && present != target) {
    throw PackageError("it is for target " + target + ", and device npu of this process is " + present +
                       ": set INDUCTOR_NPU_TARGET=" + target + ", or make it for " + present);
  }
  check_processor(manifest.at("machine"));
}

void open_platform(const Json& manifest, int device) {
  configure_if_needed(manifest);
  ensure_open();
  check_device(device);
}

}  // namespace inductor_npu::package
