#include "collectives/nccl_backend.h"

#include <ATen/Functions.h>
#include <c10/core/StreamGuard.h>

#include <utility>

#include "allocator.h"
#include "fallback.h"
#include "graph.h"

namespace inductor_npu::collectives {
namespace {

using Tensors = std::vector<at::Tensor>;

using Factor = c10d::NCCLPreMulSumSupplement;

Tensors together(const Tensors& some, const Tensors& others) {
  Tensors all = some;
  all.insert(all.end(), others.begin(), others.end());
  return all;
}

Tensors flat(const std::vector<Tensors>& lists) {
  Tensors all;
  for (const Tensors& list : lists) {
    all.insert(all.end(), list.begin(), list.end());
  }
  return all;
}

Tensors to_library(LibraryView& view, const Tensors& tensors) {
  Tensors made;
  made.reserve(tensors.size());
  for (const at::Tensor& tensor : tensors) {
    made.push_back(view.to_library(tensor));
  }
  return made;
}

std::vector<Tensors> to_library(LibraryView& view, const std::vector<Tensors>& lists) {
  std::vector<Tensors> made;
  made.reserve(lists.size());
  for (const Tensors& list : lists) {
    made.push_back(to_library(view, list));
  }
  return made;
}

// An operator's factor may be a tensor.
c10d::ReduceOp to_library(LibraryView& view, const c10d::ReduceOp& op) {
  if (op.op_ != c10d::ReduceOp::PREMUL_SUM) {
    return op;
  }
  const at::Tensor& factor = static_cast<const Factor&>(*op.supplement_).tensor_factor;
  c10d::ReduceOp seen = op;
  if (on_npu(factor)) {
    seen.supplement_ = c10::make_intrusive<Factor>(view.to_library(factor));
  }
  return seen;
}

template <class Options>
Options to_library(LibraryView& view, Options options) {
  options.reduceOp = to_library(view, options.reduceOp);
  return options;
}

c10::DeviceIndex device_of(c10d::OpType op, const Tensors& tensors) {
  c10::DeviceIndex device = -1;
  for (const at::Tensor& tensor : tensors) {
    TORCH_CHECK_VALUE(on_npu(tensor), c10d::opTypeToString(op), " on npu: expected tensors of device npu, got one of ",
                      tensor.device(), "; a group for both is init_process_group(\"cpu:gloo,npu:hccl\")");
    TORCH_CHECK_VALUE(tensor.layout() == at::kStrided && !tensor.is_nested(), c10d::opTypeToString(op),
                      " on npu: expected dense tensors, got one with layout ", tensor.layout());
    TORCH_CHECK_VALUE(device == -1 || device == tensor.device().index(), c10d::opTypeToString(op),
                      " on npu: expected tensors of one device, got npu:", static_cast<int>(device), " and ",
                      tensor.device());
    device = tensor.device().index();
  }
  return device != -1 ? device : current_device();
}

}  // namespace

NcclBackend::NcclBackend(Maker make_nccl, const c10::intrusive_ptr<c10d::Store>& store, int rank, int size,
                         const std::string& name, std::chrono::milliseconds timeout)
    : BackendOfNpu(std::move(make_nccl), store, rank, size), nccl_(make(timeout)), timeout_(timeout) {
  nccl_->setGroupUid(name);
}

NcclBackend::~NcclBackend() {
  for (auto& queues : queues_) {
    for (Queue& queue : queues) {
      if (queue.stream.has_value()) {
        give_back_stream(*queue.stream);
        driver::destroy(queue.caller);
      }
    }
  }
}

void NcclBackend::setTimeout(std::chrono::milliseconds timeout) {
  nccl_->setTimeout(timeout);
  timeout_ = timeout;
}

void NcclBackend::setGroupUid(const std::string& uid) {
  Backend::setGroupUid(uid);
  nccl_->setGroupUid(uid);
}

// --- Order -----------------------------------------------------------------------------------------------------------

NcclBackend::Queue& NcclBackend::queue_of(c10::DeviceIndex device, bool between_two) {
  Queue& queue = queues_[device][between_two];
  if (!queue.stream.has_value()) {
    const std::optional<c10::Stream> taken = take_stream(device);
    TORCH_CHECK(taken.has_value(), "process groups have taken all streams of npu:", static_cast<int>(device),
                "; destroy groups that are not needed any more");
    queue.stream = taken;
    queue.caller = driver::create_event(/*timing=*/false);
  }
  return queue;
}

template <class Start>
void NcclBackend::run(Queue& queue, c10::DeviceIndex index, const Tensors& tensors, Start start) {
  const c10::Device device(kNpu, index);
  const c10::OptionalDeviceGuard device_guard(device);
  if (CapturedGraph* graph = capturing_graph(native(current_stream(index))); C10_UNLIKELY(graph != nullptr)) {
    for (const at::Tensor& tensor : tensors) {
      graph->uses(tensor.const_data_ptr(), "a collective");
    }
  }
  driver::record(queue.caller, native(current_stream(index)));
  driver::block(queue.caller, native(*queue.stream));
  {
    const c10::StreamGuard stream_guard(*queue.stream);
    LibraryView view(device);
    const library::InOrder order(device);
    // Of NCCL's work, waiting makes the queue wait. There is none where NCCL's kernels are on the queue itself, or
    // where they are yet to be launched.
    if (const Started work = start(view)) {
      work->wait();
    }
  }
  for (const at::Tensor& tensor : tensors) {
    device_allocator()->recordStream(tensor.storage().data_ptr(), *queue.stream);
  }
}

template <class Start>
NcclBackend::Started NcclBackend::submit(c10d::OpType op, const Tensors& tensors, const Tensors& outputs,
                                         Start start) {
  const c10::DeviceIndex device = device_of(op, tensors);
  const bool between_two = op == c10d::OpType::SEND || op == c10d::OpType::RECV;
  const auto work = c10::make_intrusive<CollectiveWork>(getRank(), op, ++calls_, device);
  work->add_outputs(outputs);
  std::lock_guard<std::mutex> lock(mutex_);
  if (!coalesced_.has_value()) {
    Queue& own = queue_of(device, between_two);
    run(own, device, tensors, start);
    work->queued_on(*own.stream);
    return work;
  }
  TORCH_CHECK_VALUE(coalesced_->device == -1 || coalesced_->device == device, c10d::opTypeToString(op),
                    " on npu: expected tensors of one device in a coalesced block, got npu:",
                    static_cast<int>(coalesced_->device), " and npu:", static_cast<int>(device));
  coalesced_->device = device;
  run(queue_of(device, /*between_two=*/false), device, tensors, [&](LibraryView& view) {
    start(view);
    return Started();
  });
  coalesced_->works.push_back(work);
  coalesced_->outputs.insert(coalesced_->outputs.end(), outputs.begin(), outputs.end());
  return work;
}

void NcclBackend::startCoalescing() {
  std::lock_guard<std::mutex> lock(mutex_);
  TORCH_CHECK(!coalesced_.has_value(), "a coalesced block of collectives on npu has begun already");
  nccl_->startCoalescing();
  coalesced_.emplace();
}

NcclBackend::Started NcclBackend::endCoalescing() {
  std::lock_guard<std::mutex> lock(mutex_);
  TORCH_CHECK(coalesced_.has_value(), "no coalesced block of collectives on npu has begun");
  const Coalesced block = *std::exchange(coalesced_, std::nullopt);
  const c10::DeviceIndex device = block.device != -1 ? block.device : current_device();
  Queue& own = queue_of(device, /*between_two=*/false);
  run(own, device, {}, [&](LibraryView&) { return nccl_->endCoalescing(); });
  for (const auto& work : block.works) {
    work->queued_on(*own.stream);
  }
  const auto all = c10::make_intrusive<CollectiveWork>(getRank(), c10d::OpType::COALESCED, ++calls_, device);
  all->add_outputs(block.outputs);
  all->queued_on(*own.stream);
  return all;
}

// --- From one rank to all, and back ----------------------------------------------------------------------------------

NcclBackend::Started NcclBackend::broadcast(Tensors& tensors, const c10d::BroadcastOptions& options) {
  return submit(c10d::OpType::BROADCAST, tensors, tensors, [&](LibraryView& view) {
    Tensors seen = to_library(view, tensors);
    return nccl_->broadcast(seen, options);
  });
}

NcclBackend::Started NcclBackend::scatter(Tensors& outputs, std::vector<Tensors>& inputs,
                                          const c10d::ScatterOptions& options) {
  return submit(c10d::OpType::SCATTER, together(outputs, flat(inputs)), outputs, [&](LibraryView& view) {
    Tensors to = to_library(view, outputs);
    std::vector<Tensors> from = to_library(view, inputs);
    return nccl_->scatter(to, from, options);
  });
}

NcclBackend::Started NcclBackend::gather(std::vector<Tensors>& outputs, Tensors& inputs,
                                         const c10d::GatherOptions& options) {
  return submit(c10d::OpType::GATHER, together(flat(outputs), inputs), flat(outputs), [&](LibraryView& view) {
    std::vector<Tensors> to = to_library(view, outputs);
    Tensors from = to_library(view, inputs);
    return nccl_->gather(to, from, options);
  });
}

NcclBackend::Started NcclBackend::reduce(Tensors& tensors, const c10d::ReduceOptions& options) {
  return submit(c10d::OpType::REDUCE, tensors, tensors, [&](LibraryView& view) {
    Tensors seen = to_library(view, tensors);
    return nccl_->reduce(seen, to_library(view, options));
  });
}

// --- From all ranks to all -------------------------------------------------------------------------------------------

NcclBackend::Started NcclBackend::allreduce(Tensors& tensors, const c10d::AllreduceOptions& options) {
  return submit(c10d::OpType::ALLREDUCE, tensors, tensors, [&](LibraryView& view) {
    Tensors seen = to_library(view, tensors);
    return nccl_->allreduce(seen, to_library(view, options));
  });
}

NcclBackend::Started NcclBackend::allreduce_coalesced(Tensors& tensors,
                                                      const c10d::AllreduceCoalescedOptions& options) {
  return submit(c10d::OpType::ALLREDUCE_COALESCED, tensors, tensors, [&](LibraryView& view) {
    Tensors seen = to_library(view, tensors);
    return nccl_->allreduce_coalesced(seen, to_library(view, options));
  });
}

NcclBackend::Started NcclBackend::allgather(std::vector<Tensors>& outputs, Tensors& inputs,
                                            const c10d::AllgatherOptions& options) {
  return submit(c10d::OpType::ALLGATHER, together(flat(outputs), inputs), flat(outputs), [&](LibraryView& view) {
    std::vector<Tensors> to = to_library(view, outputs);
    Tensors from = to_library(view, inputs);
    return nccl_->allgather(to, from, options);
  });
}

NcclBackend::Started NcclBackend::_allgather_base(at::Tensor& output, at::Tensor& input,
                                                  const c10d::AllgatherOptions& options) {
  return submit(c10d::OpType::_ALLGATHER_BASE, {output, input}, {output}, [&](LibraryView& view) {
    at::Tensor to = view.to_library(output), from = view.to_library(input);
    return nccl_->_allgather_base(to, from, options);
  });
}

NcclBackend::Started NcclBackend::allgather_into_tensor_coalesced(Tensors& outputs, Tensors& inputs,
                                                                  const c10d::AllgatherOptions& options) {
  return submit(c10d::OpType::COALESCED, together(outputs, inputs), outputs, [&](LibraryView& view) {
    Tensors to = to_library(view, outputs), from = to_library(view, inputs);
    return nccl_->allgather_into_tensor_coalesced(to, from, options);
  });
}

NcclBackend::Started NcclBackend::reduce_scatter(Tensors& outputs, std::vector<Tensors>& inputs,
                                                 const c10d::ReduceScatterOptions& options) {
  return submit(c10d::OpType::REDUCE_SCATTER, together(outputs, flat(inputs)), outputs, [&](LibraryView& view) {
    Tensors to = to_library(view, outputs);
    std::vector<Tensors> from = to_library(view, inputs);
    return nccl_->reduce_scatter(to, from, to_library(view, options));
  });
}

NcclBackend::Started NcclBackend::_reduce_scatter_base(at::Tensor& output, at::Tensor& input,
                                                       const c10d::ReduceScatterOptions& options) {
  return submit(c10d::OpType::_REDUCE_SCATTER_BASE, {output, input}, {output}, [&](LibraryView& view) {
    at::Tensor to = view.to_library(output), from = view.to_library(input);
    return nccl_->_reduce_scatter_base(to, from, to_library(view, options));
  });
}

NcclBackend::Started NcclBackend::reduce_scatter_tensor_coalesced(Tensors& outputs, Tensors& inputs,
                                                                  const c10d::ReduceScatterOptions& options) {
  return submit(c10d::OpType::COALESCED, together(outputs, inputs), outputs, [&](LibraryView& view) {
    Tensors to = to_library(view, outputs), from = to_library(view, inputs);
    return nccl_->reduce_scatter_tensor_coalesced(to, from, to_library(view, options));
  });
}

NcclBackend::Started NcclBackend::alltoall_base(at::Tensor& output, at::Tensor& input,
                                                std::vector<int64_t>& output_splits, std::vector<int64_t>& input_splits,
                                                const c10d::AllToAllOptions& options) {
  return submit(c10d::OpType::ALLTOALL_BASE, {output, input}, {output}, [&](LibraryView& view) {
    at::Tensor to = view.to_library(output), from = view.to_library(input);
    return nccl_->alltoall_base(to, from, output_splits, input_splits, options);
  });
}

NcclBackend::Started NcclBackend::alltoall(Tensors& outputs, Tensors& inputs, const c10d::AllToAllOptions& options) {
  return submit(c10d::OpType::ALLTOALL, together(outputs, inputs), outputs, [&](LibraryView& view) {
    Tensors to = to_library(view, outputs), from = to_library(view, inputs);
    return nccl_->alltoall(to, from, options);
  });
}

// --- Between two ranks -----------------------------------------------------------------------------------------------

NcclBackend::Started NcclBackend::send(Tensors& tensors, int rank, int tag) {
  return submit(c10d::OpType::SEND, tensors, {}, [&](LibraryView& view) {
    Tensors seen = to_library(view, tensors);
    return nccl_->send(seen, rank, tag);
  });
}

NcclBackend::Started NcclBackend::recv(Tensors& tensors, int rank, int tag) {
  return submit(c10d::OpType::RECV, tensors, tensors, [&](LibraryView& view) {
    Tensors seen = to_library(view, tensors);
    return nccl_->recv(seen, rank, tag);
  });
}

// --- The group -------------------------------------------------------------------------------------------------------

// The sum of one number of each rank: NCCL's own barrier has the caller wait here, instead of where it waits for the
// work.
NcclBackend::Started NcclBackend::barrier(const c10d::BarrierOptions& options) {
  const c10::DeviceIndex device = device_of(options);
  refuse_in_capture(native(current_stream(device)), "a barrier", "the caller waits for it");
  Tensors number{at::zeros({1}, at::TensorOptions().device(c10::Device(kNpu, device)))};
  return submit(c10d::OpType::BARRIER, number, {}, [&](LibraryView& view) {
    Tensors seen = to_library(view, number);
    c10d::AllreduceOptions sum;
    sum.timeout = options.timeout;
    return nccl_->allreduce(seen, sum);
  });
}

}  // namespace inductor_npu::collectives
