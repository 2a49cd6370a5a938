// The backend of torch.distributed for device npu on GPUs: PyTorch's own of NCCL, on the memory of npu, in order with
// its streams.
#pragma once

#include <torch/csrc/distributed/c10d/Backend.hpp>

#include <array>
#include <atomic>
#include <chrono>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "collectives/backend_of_npu.h"
#include "collectives/maker.h"
#include "collectives/work.h"
#include "runtime.h"

namespace inductor_npu::collectives {

// Collectives are queued on a stream of the backend's own, which waits for the caller's, and NCCL's kernels on that of
// NCCL behind it: what the caller queues next goes on beside them until it waits for their work. Tensors are dense and
// on one device of this process; what else NCCL does not take, its own checks say.
class NcclBackend final : public BackendOfNpu {
 public:
  // `name`: the group's, for messages. Raises what `make_nccl` raises.
  NcclBackend(Maker make_nccl, const c10::intrusive_ptr<c10d::Store>& store, int rank, int size,
              const std::string& name, std::chrono::milliseconds timeout);
  ~NcclBackend() override;

  void setTimeout(std::chrono::milliseconds timeout) override;
  void setGroupUid(const std::string& uid) override;

  c10::intrusive_ptr<c10d::Work> broadcast(std::vector<at::Tensor>& tensors,
                                           const c10d::BroadcastOptions& options) override;
  c10::intrusive_ptr<c10d::Work> allreduce(std::vector<at::Tensor>& tensors,
                                           const c10d::AllreduceOptions& options) override;
  c10::intrusive_ptr<c10d::Work> allreduce_coalesced(std::vector<at::Tensor>& tensors,
                                                     const c10d::AllreduceCoalescedOptions& options) override;
  c10::intrusive_ptr<c10d::Work> reduce(std::vector<at::Tensor>& tensors, const c10d::ReduceOptions& options) override;
  c10::intrusive_ptr<c10d::Work> allgather(std::vector<std::vector<at::Tensor>>& outputs,
                                           std::vector<at::Tensor>& inputs,
                                           const c10d::AllgatherOptions& options) override;
  c10::intrusive_ptr<c10d::Work> _allgather_base(at::Tensor& output, at::Tensor& input,
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
  c10::intrusive_ptr<c10d::Work> barrier(const c10d::BarrierOptions& options) override;

  // Between the two, NCCL only notes collectives; they are one launch at the end.
  void startCoalescing() override;
  c10::intrusive_ptr<c10d::Work> endCoalescing() override;

  void setSequenceNumberForGroup() override { nccl_->setSequenceNumberForGroup(); }
  uint64_t getSequenceNumberForGroup() override { return nccl_->getSequenceNumberForGroup(); }

  void shutdown() override { nccl_->shutdown(); }
  void abort() override { nccl_->abort(); }

 private:
  std::chrono::milliseconds timeout() const override { return timeout_; }
  c10::intrusive_ptr<Backend> split_off(const Maker& make, const c10::intrusive_ptr<c10d::Store>& store, int rank,
                                        int size, const std::string& name,
                                        std::chrono::milliseconds timeout) const override {
    return c10::make_intrusive<NcclBackend>(make, store, rank, size, name, timeout);
  }

  using Tensors = std::vector<at::Tensor>;
  using Started = c10::intrusive_ptr<c10d::Work>;

  // Streams of one device: transfers between two ranks do not wait for what all ranks do together.
  struct Queue {
    std::optional<c10::Stream> stream;
    driver::Event* caller = nullptr;  // where the caller's stream was
  };
  struct Coalesced {
    c10::DeviceIndex device = -1;
    std::vector<c10::intrusive_ptr<CollectiveWork>> works;
    Tensors outputs;
  };

  Queue& queue_of(c10::DeviceIndex device, bool between_two);
  // Runs `start(view)`, which calls NCCL with what `view` makes of `tensors`, all of which may be used until it is
  // done. `outputs`: what the work gives.
  template <class Start>
  Started submit(c10d::OpType op, const Tensors& tensors, const Tensors& outputs, Start start);
  template <class Start>
  void run(Queue& queue, c10::DeviceIndex device, const Tensors& tensors, Start start);

  const c10::intrusive_ptr<c10d::Backend> nccl_;
  std::chrono::milliseconds timeout_;
  std::atomic<uint64_t> calls_{0};
  std::mutex mutex_;  // of what follows
  std::array<std::array<Queue, 2>, kMaxDevices> queues_{};
  std::optional<Coalesced> coalesced_;
};

}  // namespace inductor_npu::collectives
