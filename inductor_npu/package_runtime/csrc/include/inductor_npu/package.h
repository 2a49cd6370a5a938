// Packages for C++ programs: a model as one file, made by inductor_npu.package, loaded and run without Python, Triton
// or a compiler (docs/export.md). Link the library that `python -m inductor_npu.device` builds; CMake finds
// it as InductorNpu::runtime.
#pragma once

#include <ATen/core/Tensor.h>

#include <memory>
#include <stdexcept>
#include <string>
#include <unordered_map>
#include <vector>

namespace inductor_npu {

// A package that does not fit this process, or is damaged: one line that says what and why. Nothing of it was executed.
class PackageError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// A loaded package. Threads may share it.
class Package {
 public:
  // Loads the file `path` onto device npu `device`. All of the file is verified before any of it is used. `weights`
  // names the file with the weights of a package that has them beside it; by default the one that it names, in its own
  // folder. The first package of a process that has not configured device npu does that, for the package's target.
  // Throws PackageError.
  static std::shared_ptr<Package> load(const std::string& path, int device = 0, const std::string& weights = "");

  virtual ~Package() = default;

  // Queues the model's work on the current stream and returns its results, in order. `inputs` are the tensors of the
  // exported function, on the package's device. Throws c10::Error (a std::exception) where they do not fit: which one,
  // what it is, what it has to be.
  virtual std::vector<at::Tensor> run(const std::vector<at::Tensor>& inputs) = 0;

  // Overwrites weights in place, by their names in the model, and computes again what was computed of them. Waits for
  // the work that is queued. Throws c10::Error, with nothing changed, for a name, type or shape that does not fit.
  virtual void update_weights(const std::unordered_map<std::string, at::Tensor>& weights) = 0;

  // The weights themselves, on the device, by name; a weight with several names appears under each.
  virtual std::unordered_map<std::string, at::Tensor> weights() const = 0;

  // The package's manifest, JSON.
  virtual const std::string& manifest() const = 0;
};

}  // namespace inductor_npu
