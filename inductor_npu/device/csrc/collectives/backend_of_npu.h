// What backends of torch.distributed for device npu share: how they are called, and how groups split off.
#pragma once

#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <torch/csrc/distributed/c10d/Store.hpp>

#include <atomic>
#include <chrono>
#include <string>
#include <vector>

#include "collectives/maker.h"
#include "runtime.h"

namespace inductor_npu::collectives {

// Collectives themselves are the derived class's, over the backend that its `Maker` makes.
class BackendOfNpu : public c10d::Backend {
 public:
  const std::string getBackendName() const override { return kName; }
  c10::intrusive_ptr<Options> getBackendOptions() override;
  bool supportsCoalescing() const override { return true; }
  bool supportsSplitting() const override { return true; }
  c10::intrusive_ptr<Backend> split(const c10::intrusive_ptr<c10d::Store>& of_name, const std::vector<int>& ranks,
                                    const c10::intrusive_ptr<Options>& options) override;

 protected:
  BackendOfNpu(Maker make, const c10::intrusive_ptr<c10d::Store>& store, int rank, int size);

  // The backend below, for these ranks.
  c10::intrusive_ptr<Backend> make(std::chrono::milliseconds timeout) const;

  virtual std::chrono::milliseconds timeout() const = 0;
  // A backend of the derived class for a group that splits off.
  virtual c10::intrusive_ptr<Backend> split_off(const Maker& make, const c10::intrusive_ptr<c10d::Store>& store,
                                                int rank, int size, const std::string& name,
                                                std::chrono::milliseconds timeout) const = 0;

 private:
  static constexpr const char* kName = "hccl";

  const Maker make_;
  const c10::intrusive_ptr<c10d::Store> store_;
  std::atomic<int> splits_{0};
};

// The device that a barrier is for: the one that it names, or the current one.
c10::DeviceIndex device_of(const c10d::BarrierOptions& options);

}  // namespace inductor_npu::collectives
