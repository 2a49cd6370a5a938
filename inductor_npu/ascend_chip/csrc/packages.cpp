// Packages on an Ascend NPU: what package/platform.h asks for, with torch_npu's streams and CANN's runtime.
#include <ATen/ops/empty.h>
#include <c10/core/DeviceGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <c10/util/Exception.h>
#include <inductor_npu/package.h>

#include <map>
#include <mutex>
#include <tuple>

#include "launch.h"
#include "package/platform.h"
#include "package/python_class.h"
#include "package/sha256.h"
#include "torch_npu/csrc/core/npu/NPUStream.h"

namespace inductor_npu::package {
namespace {

// Set by the importing module (packages.py), which knows it from torch_npu.
std::string target_of_this_process;

[[noreturn]] void cannot_load(const std::string& kernel, const std::string& function, int error) {
  throw PackageError("kernel " + kernel + " cannot be loaded: " + function + " of CANN fails with error " +
                     std::to_string(error));
}

// What CANN knows a kernel by: the address of one of these. CANN keeps neither the bytes nor the name.
struct Registered {
  std::string binary, symbol, name;
};

const Registered* register_once(const std::string& binary, const std::string& symbol, bool of_vector_cores,
                                c10::Device device) {
  static std::mutex registering;
  static auto* registered = new std::map<std::tuple<int, std::string, std::string>, std::unique_ptr<Registered>>();
  const std::lock_guard<std::mutex> lock(registering);
  auto& kernel = (*registered)[{device.index(), sha256(binary.data(), binary.size()), symbol}];
  if (kernel == nullptr) {
    auto made = std::make_unique<Registered>(Registered{binary, symbol, ""});
    made->name = symbol + "_of_package_" + std::to_string(registered->size());
    const ascend::Binary described{of_vector_cores ? ascend::kVectorMagic : ascend::kCubeMagic, 0, made->binary.data(),
                                   made->binary.size()};
    void* handle = nullptr;
    if (const int error = ascend::runtime.register_binary(&described, &handle)) {
      cannot_load(symbol, "rtDevBinaryRegister", error);
    }
    if (const int error = ascend::runtime.register_function(handle, made.get(), made->name.c_str(),
                                                            made->symbol.c_str(), 0)) {
      cannot_load(symbol, "rtFunctionRegister", error);
    }
    kernel = std::move(made);
  }
  return kernel.get();
}

void push(ascend::Packed& packed, char kind, const c10::IValue& value, const std::string& kernel) {
  if (kind == 'P') {
    if (value.isNone()) {
      return packed.push<uint64_t>(0);
    }
    const at::Tensor& tensor = value.toTensor();
    TORCH_CHECK(tensor.device().type() == kNpuDevice, "kernel ", kernel, " takes a tensor on npu, not on ",
                tensor.device());
    return packed.push(reinterpret_cast<uint64_t>(tensor.mutable_data_ptr()));
  }
  if (kind == 'f' || kind == 'd') {
    const double real = value.isDouble() ? value.toDouble() : static_cast<double>(value.toInt());
    return kind == 'd' ? packed.push(real) : packed.push(static_cast<float>(real));
  }
  const int64_t integer = value.isBool() ? static_cast<int64_t>(value.toBool()) : value.toInt();
  bool fits = true;
  switch (kind) {
    case 'b': fits = packed.push_integer<int8_t>(integer); break;
    case 'h': fits = packed.push_integer<int16_t>(integer); break;
    case 'i': fits = packed.push_integer<int32_t>(integer); break;
    case 'I': fits = packed.push_integer<uint32_t>(integer); break;
    case 'q': fits = packed.push_integer<int64_t>(integer); break;
    default: packed.push(static_cast<uint64_t>(integer)); break;  // Q
  }
  TORCH_CHECK(fits, "kernel ", kernel, ": ", integer, " does not fit an argument's type");
}

// `arguments`: how the kernel takes them, one letter each, as in launcher.cpp.
class AscendKernel final : public PackagedKernel {
 public:
  AscendKernel(const Registered* kernel, ascend::KernelFacts facts, std::string arguments)
      : kernel_(kernel), facts_(std::move(facts)), kinds_(std::move(arguments)) {}

  size_t argument_count() const override { return kinds_.size(); }

  void launch(const std::array<int64_t, 3>& grid, c10::ArrayRef<c10::IValue> arguments,
              c10::Device device) const override {
    const auto blocks = static_cast<unsigned long>(grid[0] * grid[1] * grid[2]);
    if (blocks == 0) {
      return;
    }
    at::Tensor workspace;  // torch_npu's allocator keeps what is freed for later work of the same stream
    if (facts_.workspace_bytes > 0) {
      workspace = at::empty({facts_.workspace_bytes * static_cast<int64_t>(blocks)},
                            at::TensorOptions().dtype(at::kByte).device(device));
    }
    const void* memory = workspace.defined() ? workspace.const_data_ptr() : nullptr;
    ascend::Packed packed(facts_, reinterpret_cast<uint64_t>(memory));
    for (size_t i = 0; i < arguments.size(); ++i) {
      push(packed, kinds_[i], arguments[i], facts_.name);
    }
    for (const int64_t length : grid) {
      packed.push(static_cast<int32_t>(length));
    }
    // The stream without a wait for torch_npu's queue of launches: ours go into the same queue.
    void* stream = c10_npu::getCurrentNPUStream(device.index()).stream(/*need_empty=*/false);
    ascend::enqueue(facts_, kernel_, stream, blocks, std::move(packed));
  }

 private:
  const Registered* kernel_;
  ascend::KernelFacts facts_;
  std::string kinds_;
};

}  // namespace

void check_fits_platform(const Json& manifest) {
  const std::string& provider = manifest.at("provider").string();
  if (provider != "ascend") {
    throw PackageError("it is for provider " + provider + ", and device npu of this process is provided by torch_npu");
  }
  const std::string& target = manifest.at("target").at("name").string();
  if (target != target_of_this_process) {
    throw PackageError("it is for target " + target + ", and device npu of this process is " + target_of_this_process +
                       ": make it for " + target_of_this_process);
  }
}

void open_platform(const Json& /*manifest*/, int device) {
  const c10::impl::VirtualGuardImpl npu(kNpuDevice);
  TORCH_CHECK(device >= 0 && device < npu.deviceCount(), "there is no device npu:", device, ", but ",
              static_cast<int>(npu.deviceCount()), " of them");
  const c10::DeviceGuard guard(c10::Device(kNpuDevice, static_cast<c10::DeviceIndex>(device)));
  at::empty({1}, at::TensorOptions().dtype(at::kByte).device(guard.current_device()));  // torch_npu opens it
}

Kernels load_kernels(const Contents& contents, c10::Device device) {
  Kernels kernels;
  for (const Json& facts : contents.manifest.at("kernels").array()) {
    const std::string& symbol = facts.at("symbol").string();
    const Registered* kernel =
        register_once(contents.member(facts.at("binary").string()), symbol, facts.at("mode").string() == "aiv", device);
    ascend::KernelFacts known{symbol,
                              static_cast<long>(facts.at("workspace_bytes").integer()),
                              static_cast<unsigned>(facts.at("most_blocks").integer()),
                              facts.at("synchronises").boolean(),
                              static_cast<profiling::TaskType>(facts.at("task_type").integer()),
                              static_cast<unsigned>(facts.at("mix_ratio").integer())};
    kernels.push_back(std::make_shared<AscendKernel>(kernel, std::move(known), facts.at("arguments").string()));
  }
  return kernels;
}

}  // namespace inductor_npu::package

PYBIND11_MODULE(_packages, module) {
  if (const char* missing = ascend::install_runtime()) {
    throw pybind11::import_error("CANN's runtime has no function " + std::string(missing));
  }
  inductor_npu::package::add_package_class(module);
  module.def("set_target", [](const std::string& name) { inductor_npu::package::target_of_this_process = name; });
}
