// A loaded package; see inductor_npu/package.h.
#pragma once

#include <inductor_npu/package.h>

#include <mutex>
#include <optional>
#include <shared_mutex>

#include "package/archive.h"
#include "package/program.h"
#include "package/signature.h"
#include "package/weights.h"

namespace inductor_npu::package {

class LoadedPackage final : public Package {
 public:
  // `folder`: where weights beside the package are looked for; `weights`: their file, or empty. Throws PackageError.
  LoadedPackage(const Source& source, int device, const std::string& folder, const std::string& weights);

  std::vector<at::Tensor> run(const std::vector<at::Tensor>& inputs) override;
  void update_weights(const std::unordered_map<std::string, at::Tensor>& weights) override;
  std::unordered_map<std::string, at::Tensor> weights() const override { return weights_->by_name(); }
  const std::string& manifest() const override { return manifest_text_; }

  const Json& facts() const { return manifest_; }
  c10::Device device() const { return device_; }

 private:
  std::vector<c10::IValue> run_program(const std::vector<at::Tensor>& inputs);
  void fold();

  std::string manifest_text_;
  Json manifest_;
  c10::Device device_;
  std::optional<Weights> weights_;
  std::optional<Signature> signature_;
  std::optional<Program> folding_, program_;
  std::vector<at::Tensor> constants_;  // the weights, then what is computed of them
  bool writes_weights_;
  std::shared_mutex mutex_;  // held alone by whoever writes weights
  std::mutex door_;          // held by whoever waits for it, so that runs that follow do not keep a writer out for good
};

}  // namespace inductor_npu::package
