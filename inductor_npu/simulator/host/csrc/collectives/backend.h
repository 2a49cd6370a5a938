// The backend of torch.distributed for device npu: gloo's collectives on the memory of npu, in order with its streams.
#pragma once

#include <torch/csrc/distributed/c10d/Backend.hpp>

#include <chrono>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "collectives/backend_of_npu.h"
#include "collectives/group.h"
#include "collectives/maker.h"
#include "collectives/work.h"

namespace inductor_npu::collectives {

class RequestBuilder;

// Tensors are dense, contiguous and on one device of this process, whichever; else an error says so at the call. What
// goes wrong later, as another rank that ends, fails the stream that waits. gloo moves types that it knows as they are
// and others as bytes; it reduces them in a wider type (host_tensors.h).
class NpuBackend final : public BackendOfNpu {
 public:
  // `name`: the group's, for messages. Raises what `make_gloo` raises, as where ranks do not come within `timeout`.
  NpuBackend(Maker make_gloo, const c10::intrusive_ptr<c10d::Store>& store, int rank, int size,
             const std::string& name, std::chrono::milliseconds timeout);

  void setTimeout(std::chrono::milliseconds timeout) override;
  void setGroupUid(const std::string& uid) override;

  c10::intrusive_ptr<c10d::Work> broadcast(std::vector<at::Tensor>& tensors,
                                           const c10d::BroadcastOptions& options) override;
  c10::intrusive_ptr<c10d::Work> allreduce(std::vector<at::Tensor>& tensors,
                                           const c10d::AllreduceOptions& options) override;
  c10::intrusive_ptr<c10d::Work> allreduce_sparse(std::vector<at::Tensor>& tensors,
                                                  const c10d::AllreduceOptions& options) override;
  c10::intrusive_ptr<c10d::Work> allreduce_coalesced(std::vector<at::Tensor>& tensors,
                                                     const c10d::AllreduceCoalescedOptions& options) override;
  c10::intrusive_ptr<c10d::Work> reduce(std::vector<at::Tensor>& tensors, const c10d::ReduceOptions& options) override;
  c10::intrusive_ptr<c10d::Work> allgather(std::vector<std::vector<at::Tensor>>& outputs,
                                           std::vector<at::Tensor>& inputs,
                                           const c10d::AllgatherOptions& options) override;
  c10::intrusive_ptr<c10d::Work> _allgather_base(at::Tensor& output, at::Tensor& input,
                                                 const c10d::AllgatherOptions& options) override;
  c10::intrusive_ptr<c10d::Work> allgather_coalesced(std::vector<std::vector<at::Tensor>>& outputs,
                                                     std::vector<at::Tensor>& inputs,
                                                     const c10d::AllgatherOptions& options) override;
  c10::intrusive_ptr<c10d::Work> allgather_into_tensor_coalesced(std::vector<at::Tensor>& outputs,
                                                                 std::vector<at::Tensor>& inputs,
                                                                 const c10d::AllgatherOptions& options) override;
  c10::intrusive_ptr<c10d::Work> gather(std::vector<std::vector<at::Tensor>>& outputs, std::vector<at::Tensor>& inputs,
                                        const c10d::GatherOptions& options) override;
  c10::intrusive_ptr<c10d::Work> scatter(std::vector<at::Tensor>& outputs, std::vector<std::vector<at::Tensor>>& inputs,
                                         const c10d::ScatterOptions& options) override;
  c10::intrusive_ptr<c10d::Work> reduce_scatter(std::vector<at::Tensor>& outputs,
                                                std::vector<std::vector<at::Tensor>>& inputs,
                                                const c10d::ReduceScatterOptions& options) override;
  c10::intrusive_ptr<c10d::Work> _reduce_scatter_base(at::Tensor& output, at::Tensor& input,
                                                      const c10d::ReduceScatterOptions& options) override;
  c10::intrusive_ptr<c10d::Work> reduce_scatter_tensor_coalesced(std::vector<at::Tensor>& outputs,
                                                                 std::vector<at::Tensor>& inputs,
                                                                 const c10d::ReduceScatterOptions& options) override;
  c10::intrusive_ptr<c10d::Work> alltoall_base(at::Tensor& output, at::Tensor& input,
                                               std::vector<int64_t>& output_splits, std::vector<int64_t>& input_splits,
                                               const c10d::AllToAllOptions& options) override;
  c10::intrusive_ptr<c10d::Work> alltoall(std::vector<at::Tensor>& outputs, std::vector<at::Tensor>& inputs,
                                          const c10d::AllToAllOptions& options) override;
  c10::intrusive_ptr<c10d::Work> send(std::vector<at::Tensor>& tensors, int rank, int tag) override;
  c10::intrusive_ptr<c10d::Work> recv(std::vector<at::Tensor>& tensors, int rank, int tag) override;
  c10::intrusive_ptr<c10d::Work> recvAnysource(std::vector<at::Tensor>& tensors, int tag) override;
  c10::intrusive_ptr<c10d::Work> barrier(const c10d::BarrierOptions& options) override;

  // Between the two, collectives are only noted; they begin together at the end.
  void startCoalescing() override;
  c10::intrusive_ptr<c10d::Work> endCoalescing() override;

  void setSequenceNumberForGroup() override { group_->gloo().setSequenceNumberForGroup(); }
  uint64_t getSequenceNumberForGroup() override { return group_->gloo().getSequenceNumberForGroup(); }

  // Waits for what is queued, at most as long as the group's time-out.
  void shutdown() override;
  // What is queued fails.
  void abort() override;

 private:
  std::chrono::milliseconds timeout() const override { return group_->timeout(); }
  c10::intrusive_ptr<Backend> split_off(const Maker& make, const c10::intrusive_ptr<c10d::Store>& store, int rank,
                                        int size, const std::string& name,
                                        std::chrono::milliseconds timeout) const override {
    return c10::make_intrusive<NpuBackend>(make, store, rank, size, name, timeout);
  }

  c10::intrusive_ptr<c10d::Work> submit(RequestBuilder&& builder);

  struct Coalesced {
    Request request;
    c10::DeviceIndex device = -1;
    c10::intrusive_ptr<CollectiveWork> work;
    std::vector<c10d::OpType> kinds;
  };

  const std::shared_ptr<Group> group_;
  std::mutex coalescing_mutex_;
  std::optional<Coalesced> coalesced_;
};

}  // namespace inductor_npu::collectives
