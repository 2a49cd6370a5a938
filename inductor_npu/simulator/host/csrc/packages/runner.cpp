// Packages behind torch's own names: AOTIModelPackageLoader, and with it torch._inductor.aoti_load_package.
//
// That loader extracts the archive's model folder and looks the device up in its registry of runners. Ours verifies the
// folder, as for a file, before it loads anything. torch 2.11 has no runner without a library of its own kind.
#include <torch/version.h>

#if TORCH_VERSION_MAJOR > 2 || TORCH_VERSION_MINOR >= 12

#include <c10/util/Exception.h>
#include <torch/csrc/inductor/aoti_runner/model_container_runner.h>
#include <torch/csrc/inductor/aoti_torch/tensor_converter.h>

#include <algorithm>
#include <filesystem>

#include "package/loaded.h"
#include "package/types.h"
#include "runtime.h"

namespace inductor_npu::package {
namespace {

class PackageRunner;

// The base class calls functions of a C interface with the container; ours is the runner itself.
PackageRunner& runner_of(AOTInductorModelContainerHandle container);

// An error must not leave through the C interface: the base class raises one of its own, and ours is printed there.
template <class Body>
AOTIRuntimeError guarded(Body body) {
  try {
    body();
    return 0;
  } catch (const c10::Error& error) {
    TORCH_WARN("inductor-npu: ", error.what_without_backtrace());
    return 1;
  } catch (const std::exception& error) {
    TORCH_WARN("inductor-npu: ", error.what());
    return 1;
  }
}

class PackageRunner final : public torch::inductor::AOTIModelContainerRunner {
 public:
  PackageRunner(const std::string& folder, int device) : package_(*open_model_folder(folder), device, folder, "") {
    for (const Json& weight : package_.facts().at("weights").at("list").array()) {
      names_.push_back(weight.at("names").strings().front());
      types_.push_back(scalar_type(weight.at("dtype").string()));
    }
    for (const Json& result : package_.facts().at("call").at("results").array()) {
      if (result.find("tensor") == nullptr) {
        throw PackageError("the model has results that are no tensors: load it with inductor_npu.load_package");
      }
    }
    container_handle_ = reinterpret_cast<AOTInductorModelContainerHandle>(this);
    get_call_spec_func_ = &call_spec;
    get_num_constants_func_ = &count_weights;
    get_constant_name_func_ = &weight_name;
    get_constant_original_fqn_func_ = &weight_name;
    get_constant_dtype_func_ = &weight_type;
    update_constant_buffer_func_ = &update;
  }

 protected:
  std::vector<at::Tensor> run_impl(std::vector<AtenTensorHandle>& handles, void* stream) override {
    const auto inputs =
        torch::aot_inductor::alloc_tensors_by_stealing_from_handles(handles.data(), handles.size());
    TORCH_CHECK(stream == nullptr, "a package on npu runs on the current stream: make the stream current");
    return package_.run(inputs);
  }

 private:
  static AOTIRuntimeError call_spec(AOTInductorModelContainerHandle container, const char** in, const char** out) {
    const Json& facts = runner_of(container).package_.facts().at("call");
    *in = facts.at("in").string().c_str();
    *out = facts.at("out").string().c_str();
    return 0;
  }
  static AOTIRuntimeError count_weights(AOTInductorModelContainerHandle container, size_t* count) {
    *count = runner_of(container).names_.size();
    return 0;
  }
  static AOTIRuntimeError weight_name(AOTInductorModelContainerHandle container, size_t index, const char** name) {
    return guarded([&] { *name = runner_of(container).names_.at(index).c_str(); });
  }
  static AOTIRuntimeError weight_type(AOTInductorModelContainerHandle container, size_t index, int32_t* type) {
    return guarded([&] { *type = static_cast<int32_t>(runner_of(container).types_.at(index)); });
  }
  static AOTIRuntimeError update(AOTInductorModelContainerHandle container, AOTInductorConstantMapHandle map,
                                 bool inactive, bool all) {
    return guarded([&] {
      PackageRunner& runner = runner_of(container);
      const auto& handles = *reinterpret_cast<std::unordered_map<std::string, AtenTensorHandle>*>(map);
      TORCH_CHECK(!inactive, "a package on npu has one set of weights, which is updated in place");
      TORCH_CHECK(!all || handles.size() == runner.names_.size(), "weights are missing: ", handles.size(), " of ",
                  runner.names_.size());
      std::unordered_map<std::string, at::Tensor> weights;
      for (const auto& [name, handle] : handles) {
        weights.emplace(name, *reinterpret_cast<at::Tensor*>(handle));
      }
      runner.package_.update_weights(weights);
    });
  }

  LoadedPackage package_;
  std::vector<std::string> names_;
  std::vector<c10::ScalarType> types_;
};

PackageRunner& runner_of(AOTInductorModelContainerHandle container) {
  return *reinterpret_cast<PackageRunner*>(container);
}

std::unique_ptr<torch::inductor::AOTIModelContainerRunner> make_runner(const std::string& library, size_t /*models*/,
                                                                       const std::string& device,
                                                                       const std::string& /*folder*/,
                                                                       bool /*single_threaded*/) {
  const c10::Device wanted(device);
  return std::make_unique<PackageRunner>(std::filesystem::path(library).parent_path().string(),
                                         std::max<int>(wanted.index(), 0));
}

const torch::inductor::RegisterAOTIModelRunner registered("npu", &make_runner);

}  // namespace
}  // namespace inductor_npu::package

#endif
