#include "collectives/backend_of_npu.h"

#include <torch/csrc/distributed/c10d/PrefixStore.hpp>

#include <algorithm>
#include <utility>

namespace inductor_npu::collectives {

BackendOfNpu::BackendOfNpu(Maker make, const c10::intrusive_ptr<c10d::Store>& store, int rank, int size)
    : Backend(rank, size), make_(std::move(make)), store_(store) {}

c10::intrusive_ptr<c10d::Backend> BackendOfNpu::make(std::chrono::milliseconds timeout) const {
  return make_(store_, getRank(), getSize(), timeout);
}

c10::intrusive_ptr<c10d::Backend::Options> BackendOfNpu::getBackendOptions() {
  auto options = c10::make_intrusive<Options>(kName, timeout());
  options->group_name = getGroupUid();
  options->group_desc = getGroupDesc();
  return options;
}

// PyTorch's store for the new group has its name, in which each rank counts the groups that it is in. Ranks that are in
// different groups would wait for each other for ever, so they meet where they agree: at the number of this group's
// splits.
c10::intrusive_ptr<c10d::Backend> BackendOfNpu::split(const c10::intrusive_ptr<c10d::Store>& /*of_name*/,
                                                      const std::vector<int>& ranks,
                                                      const c10::intrusive_ptr<Options>& options) {
  const int number = splits_.fetch_add(1);
  const auto own = std::find(ranks.begin(), ranks.end(), getRank());
  if (own == ranks.end()) {
    return nullptr;
  }
  const auto store =
      c10::make_intrusive<c10d::PrefixStore>(c10::str("split ", number, " from rank ", ranks.front()), store_);
  return split_off(make_, store, static_cast<int>(own - ranks.begin()), static_cast<int>(ranks.size()),
                   options->group_name, options->timeout);
}

c10::DeviceIndex device_of(const c10d::BarrierOptions& options) {
  if (options.device.has_value() && options.device->has_index()) {
    return options.device->index();
  }
  return options.device_ids.empty() ? current_device() : static_cast<c10::DeviceIndex>(options.device_ids.front());
}

}  // namespace inductor_npu::collectives
