#include "replayed_call.h"

#include <ATen/core/LegacyTypeDispatch.h>
#include <c10/core/DeviceGuard.h>
#include <c10/core/StorageImpl.h>

#include <algorithm>
#include <map>
#include <utility>

#include "handed_out.h"
#include "runtime.h"

namespace inductor_npu {
namespace {

constexpr const char* kOverwritten =
    "this result of a captured graph has been overwritten by a later call, which began a new step "
    "(torch.compiler.cudagraph_mark_step_begin): clone() what is needed longer";

// The calls of one pool, and where the last of them was replayed. Python's lock guards it.
struct PoolCalls {
  std::vector<ReplayedCall*> calls;
  std::optional<c10::Stream> stream;
};

PoolCalls& calls_of(c10::MempoolId_t pool) {
  static auto* pools = new std::map<c10::MempoolId_t, PoolCalls>();  // never destroyed: calls may end late
  return (*pools)[pool];
}

void release_storage(void* storage) {
  c10::raw::intrusive_ptr::decref(static_cast<c10::StorageImpl*>(storage));
}

// Another storage over the memory of `storage`, which it keeps alive.
c10::Storage alias(const c10::Storage& storage) {
  c10::StorageImpl* impl = storage.unsafeGetStorageImpl();
  c10::raw::intrusive_ptr::incref(impl);
  c10::DataPtr memory(impl->mutable_data(), impl, &release_storage, impl->device());
  return c10::Storage(c10::make_intrusive<c10::StorageImpl>(c10::StorageImpl::use_byte_size_t(), impl->nbytes(),
                                                            std::move(memory), c10::GetAllocator(kNpu),
                                                            /*resizable=*/true));
}

// Without the repetitions along axes of stride 0.
at::Tensor without_repetitions(const at::Tensor& tensor) {
  at::DimVector sizes(tensor.sizes());
  for (size_t axis = 0; axis < sizes.size(); ++axis) {
    sizes[axis] = tensor.stride(static_cast<int64_t>(axis)) == 0 ? 1 : sizes[axis];
  }
  return tensor.sizes() == sizes ? tensor : tensor.as_strided(sizes, tensor.strides(), tensor.storage_offset());
}

bool overlap(const MemoryRange& range, const at::Tensor& tensor) {
  const char* begin = static_cast<const char*>(tensor.storage().data());
  return begin < range.begin + range.size && range.begin < begin + tensor.storage().nbytes();
}

}  // namespace

std::shared_mutex& handed_out_memory() {
  static auto* mutex = new std::shared_mutex();  // never destroyed: operators may end late
  return *mutex;
}

struct ReplayedCall::Results {
  struct HandedOut {
    c10::weak_intrusive_ptr<c10::StorageImpl> storage;
    const void* memory;
    int64_t step;
  };
  std::vector<std::optional<HandedOut>> of_output;

  // A result that is still held, and lies in the graph's memory.
  struct Held {
    c10::intrusive_ptr<c10::StorageImpl> storage;
    const void* memory;
    bool moves;          // else an earlier step handed it out, and accesses raise from here on
    c10::DataPtr fresh;  // to where
  };

  // Adds what is held of an output to `held`.
  void add_held(size_t index, int64_t step, std::vector<Held>& held) {
    std::optional<HandedOut>& entry = of_output[index];
    auto storage = entry.has_value() ? entry->storage.lock() : c10::intrusive_ptr<c10::StorageImpl>();
    if (storage && storage->data() == entry->memory) {
      held.push_back({std::move(storage), entry->memory, entry->step == step, {}});
    } else {
      entry.reset();
    }
  }

  static void move(std::vector<Held>& held, c10::Stream stream) {
    bool copied = false;
    for (auto& [storage, memory, moves, fresh] : held) {
      if (storage->data() != memory) {
        continue;  // shared with another result, or somebody was faster
      }
      if (moves) {
        copy_async(stream, fresh.get(), memory, storage->nbytes());
        storage->set_data_ptr_noswap(std::move(fresh));
        copied = true;
      } else {
        storage->set_data_ptr_noswap(c10::DataPtr(nullptr, storage->device()));
        storage->release_data_and_set_meta_custom_data_ptr_error_msg_(kOverwritten);
      }
    }
    if (copied) {
      order_before_other_streams(stream);  // those who waited for the result have not waited for the copy
    }
  }
};

ReplayedCall::ReplayedCall(std::shared_ptr<CapturedGraph> graph, std::vector<Input> inputs, std::vector<Output> outputs)
    : graph_(std::move(graph)),
      inputs_(std::move(inputs)),
      outputs_(std::move(outputs)),
      results_(std::make_shared<Results>()) {
  results_->of_output.resize(outputs_.size());
  PoolCalls& pool = calls_of(graph_->pool());
  for (ReplayedCall* other : pool.calls) {
    find_overlaps(*other);
    other->find_overlaps(*this);
  }
  find_overlaps(*this);
  pool.calls.push_back(this);
}

ReplayedCall::~ReplayedCall() {
  std::erase(calls_of(graph_->pool()).calls, this);
}

// Which results of `other` lie in memory that this call's graph allocated while it was captured.
void ReplayedCall::find_overlaps(ReplayedCall& other) {
  Overwritten found{other.results_, {}};
  for (size_t i = 0; i < other.outputs_.size(); ++i) {
    const auto* tensor = std::get_if<at::Tensor>(&other.outputs_[i]);
    if (tensor == nullptr || tensor->storage().nbytes() == 0) {
      continue;
    }
    const auto& ranges = graph_->allocations();
    if (std::any_of(ranges.begin(), ranges.end(), [&](const MemoryRange& range) { return overlap(range, *tensor); })) {
      found.outputs.push_back(i);
    }
  }
  if (!found.outputs.empty()) {
    overwritten_.push_back(std::move(found));
  }
}

int64_t ReplayedCall::moved_input(const std::vector<at::Tensor>& arguments) const {
  for (size_t i = 0; i < inputs_.size(); ++i) {
    const auto* fixed = std::get_if<Fixed>(&inputs_[i]);
    if (fixed != nullptr && arguments[i].const_data_ptr() != fixed->address) {
      return static_cast<int64_t>(i);
    }
  }
  return -1;
}

// Graphs of one pool use the same memory: one after the other. The wait gives up Python's lock, and others may replay.
void ReplayedCall::wait_for_other_stream(c10::Stream stream) const {
  const std::optional<c10::Stream>& last = calls_of(graph_->pool()).stream;
  while (last.has_value() && *last != stream && !query_stream(*last)) {
    synchronize_stream(*last);
  }
}

// Moves what the graph would overwrite, and replays it. False, with nothing done, if somebody reads some of that.
bool ReplayedCall::protect_and_replay(c10::Stream stream, int64_t step) {
  std::erase_if(overwritten_, [](const Overwritten& entry) { return entry.results.expired(); });
  std::vector<Results::Held> held;
  for (const Overwritten& entry : overwritten_) {
    const std::shared_ptr<Results> results = entry.results.lock();
    for (const size_t output : entry.outputs) {
      results->add_held(output, step, held);
    }
  }
  for (Results::Held& result : held) {
    result.fresh = result.moves ? c10::GetAllocator(kNpu)->allocate(result.storage->nbytes()) : c10::DataPtr();
  }
  wait_for_other_stream(stream);  // again: memory may have been waited for
  std::unique_lock<std::shared_mutex> moving(handed_out_memory(), std::defer_lock);
  if (!held.empty() && !moving.try_lock()) {
    return false;
  }
  Results::move(held, stream);
  graph_->replay();
  calls_of(graph_->pool()).stream = stream;
  return true;
}

std::optional<std::vector<at::Tensor>> ReplayedCall::call(const std::vector<at::Tensor>& arguments, int64_t step) {
  const at::AutoDispatchBelowADInplaceOrView below_autograd;
  const c10::DeviceGuard guard(c10::Device(kNpu, graph_->device()));
  const c10::Stream stream = current_stream();
  wait_for_other_stream(stream);  // its replays read what is copied here
  for (size_t i = 0; i < inputs_.size(); ++i) {
    if (const auto* copied = std::get_if<Copied>(&inputs_[i])) {
      without_repetitions(copied->to).copy_(without_repetitions(arguments[i]), /*non_blocking=*/true);
    }
  }
  if (!protect_and_replay(stream, step)) {  // an argument may be an earlier step's result
    return std::nullopt;
  }
  for (size_t i = 0; i < inputs_.size(); ++i) {
    const auto* copied = std::get_if<Copied>(&inputs_[i]);
    if (copied != nullptr && copied->written) {
      without_repetitions(arguments[i]).copy_(without_repetitions(copied->to), /*non_blocking=*/true);
    }
  }
  std::vector<at::Tensor> results(outputs_.size());
  for (size_t i = 0; i < outputs_.size(); ++i) {
    if (const auto* tensor = std::get_if<at::Tensor>(&outputs_[i])) {
      results[i] = hand_out(i, *tensor, step);
    } else if (const auto* view = std::get_if<OfInput>(&outputs_[i])) {
      const at::Tensor& input = arguments[view->index];
      results[i] = input.as_strided(view->sizes, view->strides, input.storage_offset() + view->offset);
    }
  }
  return results;
}

// A tensor over the memory of `captured`. Results that shared a storage when they were captured share one here.
at::Tensor ReplayedCall::hand_out(size_t index, const at::Tensor& captured, int64_t step) {
  const void* memory = captured.storage().data();
  c10::Storage storage;
  for (size_t i = 0; i < index && memory != nullptr; ++i) {
    const auto& before = results_->of_output[i];
    if (before.has_value() && before->memory == memory) {
      if (auto shared = before->storage.lock()) {
        storage = c10::Storage(std::move(shared));
      }
    }
  }
  if (!storage) {
    storage = alias(captured.storage());
  }
  results_->of_output[index] = Results::HandedOut{
      storage.getWeakStorageImpl(), memory, step};
  at::Tensor result =
      at::detail::make_tensor<c10::TensorImpl>(std::move(storage), c10::DispatchKeySet(c10::DispatchKey::PrivateUse1),
                                               captured.dtype());
  result.unsafeGetTensorImpl()->set_sizes_and_strides(captured.sizes(), captured.strides(), captured.storage_offset());
  return result;
}

}  // namespace inductor_npu
