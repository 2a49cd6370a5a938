// Loads packages and runs them.
#include "package/loaded.h"

#include <ATen/Functions.h>
#include <ATen/core/grad_mode.h>
#include <c10/core/DeviceGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <c10/util/Exception.h>

#include <filesystem>

#include "package/platform.h"
#include "package/sha256.h"

namespace inductor_npu {
namespace package {
namespace {

constexpr int64_t kFormat = 1;  // FORMAT in inductor_npu/export/archive.py

void check_fits(const Json& manifest) {
  const int64_t format = manifest.at("format").integer();
  const std::string& version = manifest.at("versions").at("inductor-npu").string();
  if (format != kFormat) {
    throw PackageError("its format is " + std::to_string(format) + " (inductor-npu " + version +
                       "), and this version reads " + std::to_string(kFormat) + ": make it again");
  }
  check_fits_platform(manifest);
}

void synchronize(c10::Device device) {
  c10::impl::VirtualGuardImpl(device.type()).synchronizeDevice(device.index());
}

// The bytes of weights that are in a file beside the package.
std::string read_beside(const Json& facts, const std::string& folder, const std::string& chosen) {
  const std::string& name = facts.at("file").string();
  const std::string path = chosen.empty() ? (std::filesystem::path(folder) / name).string() : chosen;
  try {
    std::string bytes = read_file(path);
    if (sha256(bytes.data(), bytes.size()) == facts.at("sha256").string()) {
      return bytes;
    }
  } catch (const PackageError& error) {
    throw PackageError("its weights are in a file beside it, " + path + ": " + error.what());
  }
  throw PackageError("its weights are in a file beside it, " + path + ": it is damaged, the checksum does not match");
}

}  // namespace

LoadedPackage::LoadedPackage(const Source& source, int device, const std::string& folder, const std::string& weights)
    : device_(kNpuDevice, static_cast<c10::DeviceIndex>(device)) {
  Contents contents = read_verified(source, check_fits);
  const Json& place = contents.manifest.at("weights");
  const Json* member = place.find("member");
  const std::string beside = member == nullptr ? read_beside(place, folder, weights) : "";
  const std::string& bytes = member == nullptr ? beside : contents.member(member->string());
  open_platform(contents.manifest, device);
  const c10::DeviceGuard guard(device_);
  const at::NoGradGuard no_grad;
  weights_.emplace(place.at("list"), bytes, device_);
  const Kernels kernels = load_kernels(contents, device_);
  const Json description = Json::parse(contents.member("program.json"));
  signature_.emplace(contents.manifest.at("signature"));
  const Json& folding = description.at("folding");
  const size_t stored = weights_->tensors().size();
  const size_t folded = folding.at("outputs").array().size();
  folding_.emplace(folding, stored, device_, kernels);
  program_.emplace(description.at("program"), stored + folded, device_, kernels);
  writes_weights_ = description.at("writes_weights").boolean();
  constants_ = weights_->tensors();
  fold();
  synchronize(device_);
  manifest_text_ = std::move(contents.manifest_text);
  manifest_ = std::move(contents.manifest);
}

// Computes what depends on weights alone: the first time into new memory, later into the same.
void LoadedPackage::fold() {
  const std::vector<c10::IValue> results = folding_->run({}, weights_->tensors());
  const size_t stored = weights_->tensors().size();
  for (size_t i = 0; i < results.size(); ++i) {
    const at::Tensor& result = results[i].toTensor();
    if (constants_.size() > stored + i) {
      constants_[stored + i].copy_(result);
    } else {
      constants_.push_back(result.clone());  // with the strides that it has, in memory of its own
    }
  }
}

std::vector<at::Tensor> LoadedPackage::run(const std::vector<at::Tensor>& inputs) {
  std::vector<at::Tensor> results;
  for (const c10::IValue& value : run_program(inputs)) {
    results.push_back(value.isTensor() ? value.toTensor() : at::Tensor());
  }
  return results;
}

std::vector<c10::IValue> LoadedPackage::run_program(const std::vector<at::Tensor>& inputs) {
  const c10::DeviceGuard guard(device_);
  const at::NoGradGuard no_grad;
  std::vector<c10::IValue> taken = signature_->take(inputs, device_);
  std::vector<at::Tensor> tensors;
  for (const c10::IValue& value : taken) {
    tensors.push_back(value.toTensor());
  }
  std::unique_lock<std::shared_mutex> alone(mutex_, std::defer_lock);
  std::shared_lock<std::shared_mutex> shared(mutex_, std::defer_lock);
  {
    std::lock_guard<std::mutex> waiting(door_);
    writes_weights_ ? alone.lock() : shared.lock();
  }
  std::vector<c10::IValue> results = program_->run(std::move(taken), constants_);
  signature_->give_back(inputs, tensors);
  return results;
}

void LoadedPackage::update_weights(const std::unordered_map<std::string, at::Tensor>& weights) {
  const c10::DeviceGuard guard(device_);
  const at::NoGradGuard no_grad;
  std::unique_lock<std::mutex> waiting(door_);
  std::unique_lock<std::shared_mutex> alone(mutex_);
  waiting.unlock();
  synchronize(device_);  // runs on other streams still read what is about to change
  weights_->update(weights);
  fold();
  synchronize(device_);
}

}  // namespace package

std::shared_ptr<Package> Package::load(const std::string& path, int device, const std::string& weights) {
  std::string reason;
  try {
    const std::string folder = std::filesystem::path(path).parent_path().string();
    return std::make_shared<package::LoadedPackage>(*package::open_file(path), device, folder, weights);
  } catch (const c10::Error& error) {  // no such device, no memory, an operator that folds constants
    reason = error.what_without_backtrace();
  } catch (const std::exception& error) {
    reason = error.what();
  }
  throw PackageError("package " + path + " cannot be loaded: " + reason.substr(0, reason.find('\n')));
}

}  // namespace inductor_npu
