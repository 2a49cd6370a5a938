#include "collectives/backend.h"

#include <ATen/Functions.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <c10/util/Exception.h>
#include <c10/util/accumulate.h>
#include <torch/library.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "collectives/host_tensors.h"
#include "collectives/work.h"
#include "fallback.h"
#include "graph.h"
#include "memory_check.h"

namespace inductor_npu::collectives {

using Tensors = std::vector<at::Tensor>;
using Started = c10::intrusive_ptr<c10d::Work>;

// A request in the making: checks tensors, and gives their memory as tensors of the CPU.
class RequestBuilder {
 public:
  RequestBuilder(c10d::OpType op, std::string name) : request{op, std::move(name)} {}

  at::Tensor input(const at::Tensor& tensor) { return host(tensor, /*written=*/false); }
  Tensors inputs(const Tensors& tensors) { return each(tensors, &RequestBuilder::input); }
  at::Tensor output(const at::Tensor& tensor) {
    request.outputs.push_back(tensor);
    at::Tensor seen = host(tensor, /*written=*/true);
    memory_check::written(tensor.const_data_ptr(), tensor.nbytes());
    return seen;
  }
  Tensors outputs(const Tensors& tensors) { return each(tensors, &RequestBuilder::output); }

  // The device of all tensors, or the current one.
  c10::DeviceIndex device() const { return device_ != -1 ? device_ : current_device(); }
  void set_device(c10::DeviceIndex device) { device_ = device; }

  void add(Call call) { request.calls.push_back(std::move(call)); }
  // `start` moves elements from tensors to tensors; where there are none, no rank does anything.
  void add_unless_empty(const at::Tensor& tensor, Call call) {
    if (tensor.numel() > 0) {
      add(std::move(call));
    }
  }

  template <class... Parts>
  void check(bool holds, const Parts&... parts) const {
    TORCH_CHECK_VALUE(holds, request.name, " on npu: ", c10::str(parts...));
  }

  Request request;

 private:
  Tensors each(const Tensors& tensors, at::Tensor (RequestBuilder::*one)(const at::Tensor&)) {
    Tensors made;
    made.reserve(tensors.size());
    for (const at::Tensor& tensor : tensors) {
      made.push_back((this->*one)(tensor));
    }
    return made;
  }

  at::Tensor host(const at::Tensor& tensor, bool written) {
    check(on_npu(tensor), "expected tensors of device npu, got one of ", tensor.device(),
          "; a group for both is init_process_group(\"cpu:gloo,npu:hccl\")");
    check(tensor.layout() == at::kStrided && !tensor.is_quantized() && !tensor.is_nested(),
          "expected dense tensors, got one with layout ", tensor.layout());
    check(tensor.is_contiguous() || tensor.is_non_overlapping_and_dense(), "expected tensors without gaps, got sizes ",
          tensor.sizes(), " with strides ", tensor.strides(), "; call contiguous() first");
    check(device_ == -1 || device_ == tensor.device().index(), "expected tensors of one device, got npu:",
          static_cast<int>(device_), " and ", tensor.device());
    device_ = tensor.device().index();
    const auto* begin = static_cast<const char*>(tensor.const_data_ptr());
    request.memory.push_back({begin, begin + tensor.nbytes(), written});
    CapturedGraph* graph = capturing_graph(native(current_stream(device_)));
    if (graph != nullptr) {
      graph->uses(tensor.const_data_ptr(), request.name);
    }
    return on_host(tensor, /*keeps_alive=*/graph == nullptr);
  }

  c10::DeviceIndex device_ = -1;
};

namespace {

const at::Tensor& only(const RequestBuilder& builder, const Tensors& tensors) {
  builder.check(tensors.size() == 1, "expected one tensor of each rank, got ", tensors.size());
  return tensors.front();
}

const Tensors& only(const RequestBuilder& builder, const std::vector<Tensors>& lists, int ranks) {
  builder.check(lists.size() == 1, "expected one list of tensors, got ", lists.size());
  builder.check(static_cast<int>(lists.front().size()) == ranks, "expected a list of ", ranks,
                " tensors, one for each rank, got ", lists.front().size());
  return lists.front();
}

void check_same_type(const RequestBuilder& builder, const at::Tensor& one, const at::Tensor& other) {
  builder.check(one.scalar_type() == other.scalar_type(), "expected tensors of one dtype, got ", one.scalar_type(),
                " and ", other.scalar_type());
}

// One tensor holds the parts of all ranks.
void check_parts(const RequestBuilder& builder, const at::Tensor& whole, const at::Tensor& part, int ranks) {
  check_same_type(builder, whole, part);
  builder.check(whole.numel() == part.numel() * ranks, "expected ", ranks, " parts of ", part.numel(),
                " elements in the larger tensor, got ", whole.numel(), " elements");
  builder.check(whole.is_contiguous() && part.is_contiguous(), "expected contiguous tensors");
}

Tensors as_moved(const Tensors& hosts) {
  Tensors moved;
  std::transform(hosts.begin(), hosts.end(), std::back_inserter(moved),
                 [](const at::Tensor& host) { return collectives::as_moved(host); });
  return moved;
}

// gloo reduces `arguments` by `start(gloo, arguments, results)` into `results`, of as many tensors.
template <class Start>
Call reducing(const Reduction& reduction, Tensors arguments, Tensors results, bool in_place, Start start) {
  struct Carried {
    Tensors arguments, results;
  };
  const auto carried = std::make_shared<Carried>();
  return {[=](c10d::Backend& gloo) {
            for (const at::Tensor& argument : arguments) {
              carried->arguments.push_back(reduction.argument(argument));
            }
            for (const at::Tensor& result : results) {
              carried->results.push_back(reduction.room(result));
            }
            return start(gloo, carried->arguments, in_place ? carried->arguments : carried->results);
          },
          [=] {
            const Tensors& made = in_place ? carried->arguments : carried->results;
            for (size_t i = 0; i < results.size(); ++i) {
              reduction.finish(made[i], results[i]);
            }
            *carried = {};
          }};
}

// torch.distributed knows dense tensors of npu only; its kernel for them asks the backend all the same.
void as_dense(const c10::OperatorHandle& op, c10::DispatchKeySet /*keys*/, torch::jit::Stack* stack) {
  op.redispatchBoxed(c10::DispatchKeySet(c10::DispatchKey::PrivateUse1), stack);
}

TORCH_LIBRARY_IMPL(c10d, SparsePrivateUse1, m) {
  m.impl("allreduce_", torch::CppFunction::makeFromBoxedFunction<&as_dense>());
}

template <class Options>
Options with_operator(Options options, const Reduction& reduction) {
  options.reduceOp = reduction.gloo_op();
  return options;
}

}  // namespace

NpuBackend::NpuBackend(Maker make_gloo, const c10::intrusive_ptr<c10d::Store>& store, int rank, int size,
                       const std::string& name, std::chrono::milliseconds timeout)
    : BackendOfNpu(std::move(make_gloo), store, rank, size),
      group_(std::make_shared<Group>(make(timeout), name, timeout)) {}

void NpuBackend::setTimeout(std::chrono::milliseconds timeout) {
  group_->gloo().setTimeout(timeout);
  group_->set_timeout(timeout);
}

void NpuBackend::setGroupUid(const std::string& uid) {
  Backend::setGroupUid(uid);
  group_->gloo().setGroupUid(uid);
  group_->set_name(uid);
}

Started NpuBackend::submit(RequestBuilder&& builder) {
  const c10::DeviceIndex device = builder.device();
  std::lock_guard<std::mutex> lock(coalescing_mutex_);
  if (!coalesced_.has_value()) {
    const auto work = group_->announce(builder.request.op, device);
    work->add_outputs(builder.request.outputs);
    builder.request.outputs.clear();
    group_->submit(std::move(builder.request), device, *work);
    return work;
  }
  if (coalesced_->work == nullptr) {
    coalesced_->work = group_->announce(c10d::OpType::COALESCED, device);
    coalesced_->device = device;
  }
  builder.check(coalesced_->device == device, "one coalesced block works on one device, got npu:",
                static_cast<int>(coalesced_->device), " and npu:", static_cast<int>(device));
  coalesced_->work->add_outputs(builder.request.outputs);
  coalesced_->kinds.push_back(builder.request.op);
  for (Call& call : builder.request.calls) {
    coalesced_->request.calls.push_back(std::move(call));
  }
  auto& memory = coalesced_->request.memory;
  memory.insert(memory.end(), builder.request.memory.begin(), builder.request.memory.end());
  return coalesced_->work;
}

void NpuBackend::startCoalescing() {
  std::lock_guard<std::mutex> lock(coalescing_mutex_);
  TORCH_CHECK(!coalesced_.has_value(), "a coalesced block of process group ", getGroupUid(), " is open already");
  coalesced_.emplace();
}

Started NpuBackend::endCoalescing() {
  std::lock_guard<std::mutex> lock(coalescing_mutex_);
  TORCH_CHECK(coalesced_.has_value(), "no coalesced block of process group ", getGroupUid(), " is open");
  Coalesced block = std::move(*coalesced_);
  coalesced_.reset();
  if (block.work == nullptr) {
    return nullptr;  // nothing was asked for
  }
  const auto is_between_two = [](c10d::OpType op) { return c10d::isP2POp(op); };
  block.request.op = c10d::OpType::COALESCED;
  block.request.between_two = std::all_of(block.kinds.begin(), block.kinds.end(), is_between_two);
  block.request.name = block.request.between_two ? "batch of sends and receives" : "coalesced collectives";
  group_->submit(std::move(block.request), block.device, *block.work);
  return block.work;
}

// --- From one rank to all --------------------------------------------------------------------------------------------

Started NpuBackend::broadcast(Tensors& tensors, const c10d::BroadcastOptions& options) {
  RequestBuilder builder(c10d::OpType::BROADCAST, "broadcast");
  const at::Tensor host = collectives::as_moved(builder.output(only(builder, tensors)));
  builder.add_unless_empty(host, {[host, options](c10d::Backend& gloo) {
    Tensors tensors{host};
    return gloo.broadcast(tensors, options);
  }});
  return submit(std::move(builder));
}

Started NpuBackend::scatter(Tensors& outputs, std::vector<Tensors>& inputs, const c10d::ScatterOptions& options) {
  RequestBuilder builder(c10d::OpType::SCATTER, "scatter");
  const at::Tensor& output = only(builder, outputs);
  std::vector<Tensors> parts;
  if (getRank() == options.rootRank) {
    for (const at::Tensor& input : only(builder, inputs, getSize())) {
      check_same_type(builder, input, output);
      builder.check(input.sizes() == output.sizes(), "expected parts of sizes ", output.sizes(), ", got ", input.sizes());
    }
    parts.push_back(as_moved(builder.inputs(inputs.front())));
  } else {
    builder.check(inputs.empty(), "only rank ", options.rootRank, " gives a list of tensors");
  }
  const at::Tensor host = collectives::as_moved(builder.output(output));
  builder.add_unless_empty(host, {[host, parts, options](c10d::Backend& gloo) {
    Tensors to{host};
    std::vector<Tensors> from = parts;
    return gloo.scatter(to, from, options);
  }});
  return submit(std::move(builder));
}

// --- Reductions ------------------------------------------------------------------------------------------------------

Started NpuBackend::allreduce(Tensors& tensors, const c10d::AllreduceOptions& options) {
  RequestBuilder builder(c10d::OpType::ALLREDUCE, "all_reduce");
  if (only(builder, tensors).is_sparse()) {
    return allreduce_sparse(tensors, options);
  }
  const at::Tensor host = builder.output(tensors.front());
  const Reduction reduction(options.reduceOp, host.scalar_type(), getSize());
  const auto gloo_options = with_operator(options, reduction);
  builder.add_unless_empty(host, reducing(reduction, {host}, {host}, /*in_place=*/true,
                                          [gloo_options](c10d::Backend& gloo, Tensors& tensors, Tensors&) {
                                            return gloo.allreduce(tensors, gloo_options);
                                          }));
  return submit(std::move(builder));
}

// Sparse tensors are lists of indices and values in the host's hands: the caller waits for the result.
Started NpuBackend::allreduce_sparse(Tensors& tensors, const c10d::AllreduceOptions& options) {
  RequestBuilder builder(c10d::OpType::_ALLREDUCE_SPARSE, "all_reduce of a sparse tensor");
  at::Tensor& tensor = tensors.front();
  builder.check(on_npu(only(builder, tensors)) && tensor.is_sparse(), "expected a sparse tensor of device npu");
  builder.set_device(tensor.device().index());
  refuse_in_capture(native(current_stream(builder.device())), builder.request.name, "its size depends on values");
  const Reduction reduction(options.reduceOp, tensor.scalar_type(), getSize());
  const auto gloo_options = with_operator(options, reduction);
  const auto sum = std::make_shared<at::Tensor>(tensor.to(at::kCPU));
  builder.add({[sum, gloo_options](c10d::Backend& gloo) {
    Tensors tensors{*sum};
    return gloo.allreduce(tensors, gloo_options);
  }});
  builder.request.outputs.push_back(tensor);
  const Started work = submit(std::move(builder));
  work->wait(options.timeout == c10d::kUnsetTimeout ? group_->timeout() : options.timeout);
  if (options.reduceOp == c10d::ReduceOp::AVG) {
    sum->div_(getSize());
  }
  tensor.copy_(*sum);
  return work;
}

Started NpuBackend::allreduce_coalesced(Tensors& tensors, const c10d::AllreduceCoalescedOptions& options) {
  RequestBuilder builder(c10d::OpType::ALLREDUCE_COALESCED, "all_reduce_coalesced");
  for (const at::Tensor& host : builder.outputs(tensors)) {
    const Reduction reduction(options.reduceOp, host.scalar_type(), getSize());
    const c10d::AllreduceOptions gloo_options = with_operator(options, reduction);
    builder.add_unless_empty(host, reducing(reduction, {host}, {host}, /*in_place=*/true,
                                            [gloo_options](c10d::Backend& gloo, Tensors& tensors, Tensors&) {
                                              return gloo.allreduce(tensors, gloo_options);
                                            }));
  }
  return submit(std::move(builder));
}

Started NpuBackend::reduce(Tensors& tensors, const c10d::ReduceOptions& options) {
  RequestBuilder builder(c10d::OpType::REDUCE, "reduce");
  const at::Tensor& tensor = only(builder, tensors);
  const bool gets_result = getRank() == options.rootRank;
  const at::Tensor host = gets_result ? builder.output(tensor) : builder.input(tensor);
  const Reduction reduction(options.reduceOp, host.scalar_type(), getSize(), /*knows_bfloat16=*/false);
  const auto gloo_options = with_operator(options, reduction);
  // gloo leaves parts of the sum in the tensors of the other ranks: they give a copy.
  builder.add_unless_empty(host, reducing(reduction, {host}, gets_result ? Tensors{host} : Tensors{}, /*in_place=*/true,
                                          [=](c10d::Backend& gloo, Tensors& tensors, Tensors&) {
                                            if (!gets_result && tensors[0].data_ptr() == host.data_ptr()) {
                                              tensors[0] = tensors[0].clone();
                                            }
                                            return gloo.reduce(tensors, gloo_options);
                                          }));
  return submit(std::move(builder));
}

Started NpuBackend::reduce_scatter(Tensors& outputs, std::vector<Tensors>& inputs,
                                   const c10d::ReduceScatterOptions& options) {
  RequestBuilder builder(c10d::OpType::REDUCE_SCATTER, "reduce_scatter");
  const at::Tensor& output = only(builder, outputs);
  for (const at::Tensor& input : only(builder, inputs, getSize())) {
    check_same_type(builder, input, output);
  }
  builder.check(inputs.front()[getRank()].sizes() == output.sizes(), "expected a tensor of sizes ",
                inputs.front()[getRank()].sizes(), " for the result, got ", output.sizes());
  // Parts may have different sizes: each is reduced to the rank that gets it.
  const Tensors parts = builder.inputs(inputs.front());
  const at::Tensor result = builder.output(output);
  const Reduction reduction(options.reduceOp, result.scalar_type(), getSize(), /*knows_bfloat16=*/false);
  for (int root = 0; root < getSize(); ++root) {
    c10d::ReduceOptions to_root;
    to_root.reduceOp = reduction.gloo_op();
    to_root.rootRank = root;
    to_root.timeout = options.timeout;
    const bool own = root == getRank();
    builder.add_unless_empty(
        parts[root], reducing(reduction, {parts[root]}, own ? Tensors{result} : Tensors{}, /*in_place=*/true,
                              [to_root, part = parts[root]](c10d::Backend& gloo, Tensors& tensors, Tensors&) {
                                if (tensors[0].data_ptr() == part.data_ptr()) {
                                  tensors[0] = tensors[0].clone();
                                }
                                return gloo.reduce(tensors, to_root);
                              }));
  }
  return submit(std::move(builder));
}

Started NpuBackend::_reduce_scatter_base(at::Tensor& output, at::Tensor& input,
                                         const c10d::ReduceScatterOptions& options) {
  Tensors outputs{output}, inputs{input};
  return reduce_scatter_tensor_coalesced(outputs, inputs, options);
}

Started NpuBackend::reduce_scatter_tensor_coalesced(Tensors& outputs, Tensors& inputs,
                                                    const c10d::ReduceScatterOptions& options) {
  RequestBuilder builder(c10d::OpType::_REDUCE_SCATTER_BASE, "reduce_scatter_tensor");
  builder.check(outputs.size() == inputs.size(), "expected as many results as arguments, got ", outputs.size(), " and ",
                inputs.size());
  for (size_t i = 0; i < inputs.size(); ++i) {
    check_parts(builder, inputs[i], outputs[i], getSize());
    const at::Tensor from = as_row(builder.input(inputs[i])), to = as_row(builder.output(outputs[i]));
    const Reduction reduction(options.reduceOp, to.scalar_type(), getSize());
    const auto gloo_options = with_operator(options, reduction);
    builder.add_unless_empty(to, reducing(reduction, {from}, {to}, /*in_place=*/false,
                                          [gloo_options](c10d::Backend& gloo, Tensors& from, Tensors& to) {
                                            return gloo._reduce_scatter_base(to[0], from[0], gloo_options);
                                          }));
  }
  return submit(std::move(builder));
}

// --- From all ranks --------------------------------------------------------------------------------------------------

Started NpuBackend::allgather(std::vector<Tensors>& outputs, Tensors& inputs, const c10d::AllgatherOptions& options) {
  RequestBuilder builder(c10d::OpType::ALLGATHER, "all_gather");
  const at::Tensor& input = only(builder, inputs);
  const Tensors& parts = only(builder, outputs, getSize());
  for (const at::Tensor& part : parts) {
    check_same_type(builder, part, input);
  }
  builder.check(parts[getRank()].sizes() == input.sizes(), "expected a result of sizes ", input.sizes(), " for rank ",
                getRank(), ", got ", parts[getRank()].sizes());
  const auto has_same_sizes = [&](const at::Tensor& part) { return part.sizes() == input.sizes(); };
  const bool even = std::all_of(parts.begin(), parts.end(), has_same_sizes);
  const at::Tensor from = collectives::as_moved(builder.input(input));
  const Tensors to = as_moved(builder.outputs(parts));
  if (even) {
    builder.add_unless_empty(from, {[from, to, options](c10d::Backend& gloo) {
      std::vector<Tensors> outputs{to};
      Tensors inputs{from};
      return gloo.allgather(outputs, inputs, options);
    }});
    return submit(std::move(builder));
  }
  for (int root = 0; root < getSize(); ++root) {
    c10d::BroadcastOptions from_root;
    from_root.rootRank = root;
    from_root.timeout = options.timeout;
    const bool own = root == getRank();
    builder.add_unless_empty(to[root], {[own, from, from_root, part = to[root]](c10d::Backend& gloo) {
      if (own) {
        std::memmove(part.mutable_data_ptr(), from.const_data_ptr(), part.nbytes());
      }
      Tensors tensors{part};
      return gloo.broadcast(tensors, from_root);
    }});
  }
  return submit(std::move(builder));
}

Started NpuBackend::allgather_coalesced(std::vector<Tensors>& outputs, Tensors& inputs,
                                        const c10d::AllgatherOptions& options) {
  RequestBuilder builder(c10d::OpType::ALLGATHER_COALESCED, "all_gather_coalesced");
  builder.check(static_cast<int>(outputs.size()) == getSize(), "expected ", getSize(), " lists of results, got ",
                outputs.size());
  for (size_t i = 0; i < inputs.size(); ++i) {
    Tensors parts;
    for (const Tensors& of_rank : outputs) {
      builder.check(of_rank.size() == inputs.size(), "expected ", inputs.size(), " results of each rank, got ",
                    of_rank.size());
      check_same_type(builder, of_rank[i], inputs[i]);
      builder.check(of_rank[i].sizes() == inputs[i].sizes(), "expected results of sizes ", inputs[i].sizes(), ", got ",
                    of_rank[i].sizes());
      parts.push_back(collectives::as_moved(builder.output(of_rank[i])));
    }
    const at::Tensor from = collectives::as_moved(builder.input(inputs[i]));
    builder.add_unless_empty(from, {[from, parts, options](c10d::Backend& gloo) {
      std::vector<Tensors> outputs{parts};
      Tensors inputs{from};
      return gloo.allgather(outputs, inputs, options);
    }});
  }
  return submit(std::move(builder));
}

Started NpuBackend::_allgather_base(at::Tensor& output, at::Tensor& input, const c10d::AllgatherOptions& options) {
  Tensors outputs{output}, inputs{input};
  return allgather_into_tensor_coalesced(outputs, inputs, options);
}

Started NpuBackend::allgather_into_tensor_coalesced(Tensors& outputs, Tensors& inputs,
                                                    const c10d::AllgatherOptions& options) {
  RequestBuilder builder(c10d::OpType::_ALLGATHER_BASE, "all_gather_into_tensor");
  builder.check(outputs.size() == inputs.size(), "expected as many results as arguments, got ", outputs.size(), " and ",
                inputs.size());
  for (size_t i = 0; i < inputs.size(); ++i) {
    check_parts(builder, outputs[i], inputs[i], getSize());
    const at::Tensor from = as_row(collectives::as_moved(builder.input(inputs[i])));
    const at::Tensor to = as_row(collectives::as_moved(builder.output(outputs[i])));
    builder.add_unless_empty(from, {[from, to, options](c10d::Backend& gloo) {
      at::Tensor output = to, input = from;
      return gloo._allgather_base(output, input, options);
    }});
  }
  return submit(std::move(builder));
}

Started NpuBackend::gather(std::vector<Tensors>& outputs, Tensors& inputs, const c10d::GatherOptions& options) {
  RequestBuilder builder(c10d::OpType::GATHER, "gather");
  const at::Tensor& input = only(builder, inputs);
  std::vector<Tensors> parts;
  if (getRank() == options.rootRank) {
    for (const at::Tensor& output : only(builder, outputs, getSize())) {
      check_same_type(builder, output, input);
      builder.check(output.sizes() == input.sizes(), "expected results of sizes ", input.sizes(), ", got ",
                    output.sizes());
    }
    parts.push_back(as_moved(builder.outputs(outputs.front())));
  } else {
    builder.check(outputs.empty(), "only rank ", options.rootRank, " gives a list of tensors");
  }
  const at::Tensor from = collectives::as_moved(builder.input(input));
  builder.add_unless_empty(from, {[from, parts, options](c10d::Backend& gloo) {
    std::vector<Tensors> outputs = parts;
    Tensors inputs{from};
    return gloo.gather(outputs, inputs, options);
  }});
  return submit(std::move(builder));
}

// --- From all ranks to all -------------------------------------------------------------------------------------------

Started NpuBackend::alltoall_base(at::Tensor& output, at::Tensor& input, std::vector<int64_t>& output_splits,
                                  std::vector<int64_t>& input_splits, const c10d::AllToAllOptions& options) {
  RequestBuilder builder(c10d::OpType::ALLTOALL_BASE, "all_to_all_single");
  check_same_type(builder, output, input);
  builder.check(output.is_contiguous() && input.is_contiguous(), "expected contiguous tensors");
  for (const auto& [tensor, splits] : {std::pair{&output, &output_splits}, std::pair{&input, &input_splits}}) {
    const int64_t rows = tensor->dim() == 0 ? 1 : tensor->size(0);
    if (splits->empty()) {
      builder.check(rows % getSize() == 0, "without sizes of parts, the first size must be divisible by ", getSize(),
                    ", got ", rows);
    } else {
      builder.check(static_cast<int>(splits->size()) == getSize() && c10::sum_integers(*splits) == rows, "expected ",
                    getSize(), " sizes of parts that add up to ", rows, ", got ", c10::IntArrayRef(*splits));
    }
  }
  const at::Tensor from = collectives::as_moved(builder.input(input));
  const at::Tensor to = collectives::as_moved(builder.output(output));
  builder.add({[=](c10d::Backend& gloo) {
    at::Tensor output = to, input = from;
    std::vector<int64_t> output_sizes = output_splits, input_sizes = input_splits;
    return gloo.alltoall_base(output, input, output_sizes, input_sizes, options);
  }});
  return submit(std::move(builder));
}

// Of any sizes: as one buffer of bytes.
Started NpuBackend::alltoall(Tensors& outputs, Tensors& inputs, const c10d::AllToAllOptions& options) {
  RequestBuilder builder(c10d::OpType::ALLTOALL, "all_to_all");
  for (const Tensors* tensors : {&outputs, &inputs}) {
    builder.check(static_cast<int>(tensors->size()) == getSize(), "expected lists of ", getSize(),
                  " tensors, one for each rank, got ", tensors->size());
  }
  struct Buffer {
    Tensors parts;
    std::vector<int64_t> sizes;
    at::Tensor bytes;
    explicit Buffer(Tensors hosts) : parts(std::move(hosts)) {
      for (const at::Tensor& part : parts) {
        sizes.push_back(static_cast<int64_t>(part.nbytes()));
      }
    }
    void copy(bool in) {
      auto* bytes_here = static_cast<char*>(bytes.mutable_data_ptr());
      for (const at::Tensor& part : parts) {
        void* there = part.mutable_data_ptr();
        in ? std::memcpy(bytes_here, there, part.nbytes()) : std::memcpy(there, bytes_here, part.nbytes());
        bytes_here += part.nbytes();
      }
    }
  };
  const auto from = std::make_shared<Buffer>(builder.inputs(inputs));
  const auto to = std::make_shared<Buffer>(builder.outputs(outputs));
  builder.add({[from, to, options](c10d::Backend& gloo) {
                 from->bytes = at::empty({c10::sum_integers(from->sizes)}, at::kByte);
                 to->bytes = at::empty({c10::sum_integers(to->sizes)}, at::kByte);
                 from->copy(/*in=*/true);
                 return gloo.alltoall_base(to->bytes, from->bytes, to->sizes, from->sizes, options);
               },
               [from, to] {
                 to->copy(/*in=*/false);
                 from->bytes.reset();
                 to->bytes.reset();
               }});
  return submit(std::move(builder));
}

// --- Between two ranks -----------------------------------------------------------------------------------------------

Started NpuBackend::send(Tensors& tensors, int rank, int tag) {
  RequestBuilder builder(c10d::OpType::SEND, c10::str("send to rank ", rank));
  builder.request.between_two = true;
  const at::Tensor host = collectives::as_moved(builder.input(only(builder, tensors)));
  builder.add({[host, rank, tag](c10d::Backend& gloo) {
    Tensors tensors{host};
    return gloo.send(tensors, rank, tag);
  }});
  return submit(std::move(builder));
}

Started NpuBackend::recv(Tensors& tensors, int rank, int tag) {
  RequestBuilder builder(c10d::OpType::RECV, c10::str("recv from rank ", rank));
  builder.request.between_two = true;
  const at::Tensor host = collectives::as_moved(builder.output(only(builder, tensors)));
  builder.add({[host, rank, tag](c10d::Backend& gloo) {
    Tensors tensors{host};
    return gloo.recv(tensors, rank, tag);
  }});
  return submit(std::move(builder));
}

Started NpuBackend::recvAnysource(Tensors& tensors, int tag) {
  RequestBuilder builder(c10d::OpType::RECVANYSOURCE, "recv from any rank");
  builder.request.between_two = true;
  const at::Tensor host = collectives::as_moved(builder.output(only(builder, tensors)));
  builder.add({[host, tag](c10d::Backend& gloo) {
    Tensors tensors{host};
    return gloo.recvAnysource(tensors, tag);
  }});
  return submit(std::move(builder));
}

// --- The group -------------------------------------------------------------------------------------------------------

Started NpuBackend::barrier(const c10d::BarrierOptions& options) {
  RequestBuilder builder(c10d::OpType::BARRIER, "barrier");
  builder.set_device(device_of(options));
  refuse_in_capture(native(current_stream(builder.device())), "a barrier", "the caller waits for it");
  builder.add({[options](c10d::Backend& gloo) { return gloo.barrier(options); }});
  return submit(std::move(builder));
}

void NpuBackend::shutdown() {
  group_->finish(std::chrono::steady_clock::now() + group_->timeout());
  group_->fail("it was destroyed");
  group_->gloo().shutdown();
}

void NpuBackend::abort() {
  group_->fail("it was aborted");
  group_->gloo().abort();
}

}  // namespace inductor_npu::collectives
