// Copies: within a device, between devices, to and from the host; with any dtype and strides.
#include <ATen/Functions.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <torch/library.h>

#include <cstring>
#include <optional>

#include "fallback.h"
#include "graph_operators.h"
#include "handed_out.h"
#include "runtime.h"
#include "sync_debug.h"
#include "timeline.h"

namespace inductor_npu {
namespace {

// Below this a copy on the calling thread is faster than waking a stream's worker for it.
constexpr size_t kInlineBytes = size_t{64} << 10;

// Whether the elements of both tensors are the same bytes in the same order, without gaps.
bool is_plain_copy(const at::Tensor& source, const at::Tensor& destination) {
  return source.scalar_type() == destination.scalar_type() && source.sizes() == destination.sizes() &&
         source.strides() == destination.strides() && destination.is_non_overlapping_and_dense() &&
         source.is_conj() == destination.is_conj() && source.is_neg() == destination.is_neg() &&
         !source._is_zerotensor();
}

// Copies of the library between the two tensors come in the order of the current streams of their devices, while it
// lives.
class CopyInOrder {
 public:
  CopyInOrder(const at::Tensor& source, const at::Tensor& destination) {
    if (on_npu(source)) {
      of_source_.emplace(source.device());
    }
    if (on_npu(destination) && destination.device() != source.device()) {
      of_destination_.emplace(destination.device());
    }
  }

 private:
  std::optional<library::InOrder> of_source_, of_destination_;
};

// For the time line. Within a device, what changes the bytes or their order is no copy of bytes but an operator.
timeline::HostWork noted_copy(const at::Tensor& source, const at::Tensor& destination) {
  const c10::DeviceIndex device = (on_npu(destination) ? destination : source).device().index();
  if (source.device() == destination.device() && !is_plain_copy(source, destination)) {
    return {"aten::copy_", device};
  }
  const void* from = source._is_zerotensor() ? nullptr : source.const_data_ptr();
  return {destination.const_data_ptr(), from, destination.nbytes(), device};
}

// Any copy, by the library, after what is on the current streams of the devices involved.
void copy_now(const at::Tensor& source, const at::Tensor& destination) {
  const CopyInOrder order(source, destination);
  const timeline::HostWork work = noted_copy(source, destination);
  if (!library::kQueues && is_plain_copy(source, destination)) {
    std::memmove(destination.mutable_data_ptr(), source.const_data_ptr(), destination.nbytes());
    driver::note_written(destination.const_data_ptr(), destination.nbytes());
    return;
  }
  const at::AutoDispatchBelowADInplaceOrView guard;
  LibraryView view(on_npu(destination) ? destination.device() : source.device());
  const at::Tensor from = on_npu(source) ? view.to_library(source) : source;
  at::Tensor to = on_npu(destination) ? view.to_library(destination) : destination;
  to.copy_(from);
  if (on_npu(destination)) {
    view.written(destination);
  }
}

// Between tensors of npus, when its turn comes in a replay.
void copy_in_capture(CapturedGraph& graph, const at::Tensor& source, const at::Tensor& destination) {
  if (!is_plain_copy(source, destination)) {
    if constexpr (library::kQueues) {
      graph.uses(source.const_data_ptr(), "copy");
      graph.uses(destination.const_data_ptr(), "copy");
      copy_now(source, destination);
      return;
    }
    capture_call(graph, "aten::copy_", {source, destination},
                 [](const std::vector<at::Tensor>& tensors) { copy_now(tensors[0], tensors[1]); });
    return;
  }
  graph.uses(source.const_data_ptr(), "copy");
  graph.uses(destination.const_data_ptr(), "copy");
  copy_async(current_stream(), destination.mutable_data_ptr(), source.const_data_ptr(), destination.nbytes());
}

void copy_within_device(const at::Tensor& source, const at::Tensor& destination) {
  const c10::Stream stream = current_stream(destination.device().index());
  const size_t bytes = destination.nbytes();
  if (CapturedGraph* graph = capturing_graph(native(stream)); C10_UNLIKELY(graph != nullptr)) {
    copy_in_capture(*graph, source, destination);
    return;
  }
  const bool now = !library::kQueues && bytes <= kInlineBytes && query_stream(stream);
  if (now || !is_plain_copy(source, destination)) {
    copy_now(source, destination);
    return;
  }
  copy_async(stream, destination.mutable_data_ptr(), source.const_data_ptr(), bytes);
}

// Between pinned host memory and a device, without waiting; false if the tensors do not allow it.
bool copy_pinned(const at::Tensor& source, const at::Tensor& destination) {
  const at::Tensor& host = on_npu(source) ? destination : source;
  if (!host.is_cpu() || !is_plain_copy(source, destination) || !is_pinned_pointer(host.const_data_ptr())) {
    return false;
  }
  const c10::Stream stream = current_stream((on_npu(source) ? source : destination).device().index());
  const c10::DataPtr& memory = host.storage().data_ptr();
  void* from = const_cast<void*>(source.const_data_ptr());
  void* to = destination.mutable_data_ptr();
  const size_t bytes = destination.nbytes();
  copy_async(stream, to, from, bytes);
  if (CapturedGraph* graph = capturing_graph(native(stream)); C10_UNLIKELY(graph != nullptr)) {
    graph->uses(on_npu(source) ? from : to, "copy");
    graph->keep(host.storage());
    return true;
  }
  if (!record_pinned_use(const_cast<void*>(host.const_data_ptr()), memory.get_context(), stream)) {
    synchronize_stream(stream);  // pinned by somebody else: its memory may go as soon as we return
  }
  return true;
}

at::Tensor copy_from(const at::Tensor& self, const at::Tensor& destination, bool non_blocking) {
  if (destination.numel() == 0 || self.is_same(destination)) {
    return destination;
  }
  const at::Tensor source = self.sizes() == destination.sizes() ? self : self.expand(destination.sizes());
  const c10::DeviceGuard guard(on_npu(self) ? self.device() : destination.device());
  const ResultsStay stay;
  if (source.device() == destination.device()) {
    copy_within_device(source, destination);
  } else if (!non_blocking || !copy_pinned(source, destination)) {
    refuse_in_capture(native(current_stream()), c10::str("a copy from ", source.device(), " to ", destination.device()),
                      "replays would wait for it; copy before or after, or from pinned memory with non_blocking=True");
    host_waits_for("a copy between host and device");
    copy_now(source, destination);
  }
  return destination;
}

// Between sparse tensors, of which at least one is on an npu.
at::Tensor& copy_sparse(at::Tensor& self, const at::Tensor& source, bool non_blocking) {
  const CopyInOrder order(source, self);
  const at::AutoDispatchBelowADInplaceOrView guard;
  LibraryView view(on_npu(self) ? self.device() : source.device(), /*results_on_device=*/on_npu(self));
  const at::Tensor from = on_npu(source) ? view.to_library(source) : source;
  at::Tensor to = on_npu(self) ? view.to_library(self) : self;
  to.copy_(from, non_blocking);
  if (on_npu(self)) {
    view.written(self);
    view.write_back(self, to);
  }
  return self;
}

at::Tensor copy_from_and_resize(const at::Tensor& source, const at::Tensor& destination) {
  destination.resize_(source.sizes());
  return copy_from(source, destination, /*non_blocking=*/false);
}

at::Scalar local_scalar_dense(const at::Tensor& self) {
  const c10::Stream stream = current_stream(self.device().index());
  refuse_in_capture(native(stream), "item()", "a number of the host cannot be read again by a replay; keep it in a "
                    "tensor of npu");
  host_waits_for("item()");
  const library::InOrder order(self.device());
  const at::AutoDispatchBelowADInplaceOrView guard;
  LibraryView view(self.device());
  at::Scalar value;
  const timeline::HostWork work(&value, self.const_data_ptr(), self.nbytes(), self.device().index());
  return at::_local_scalar_dense(view.to_library(self));
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("_copy_from", copy_from);
  m.impl("_copy_from_and_resize", copy_from_and_resize);
  m.impl("_local_scalar_dense", local_scalar_dense);
}

TORCH_LIBRARY_IMPL(aten, SparsePrivateUse1, m) {
  m.impl("copy_", copy_sparse);
}

TORCH_LIBRARY_IMPL(aten, SparseCsrPrivateUse1, m) {
  m.impl("copy_", copy_sparse);
}

// A copy reads lazily conjugated, negated and zero tensors as they are; PyTorch's way of materialising them first is a
// copy, again.
void register_lazy_sources(torch::Library& m) {
  m.impl("_copy_from", torch::CppFunction::makeFallthrough());
  m.impl("_copy_from_and_resize", torch::CppFunction::makeFallthrough());
}

TORCH_LIBRARY_IMPL(aten, Conjugate, m) {
  register_lazy_sources(m);
}

TORCH_LIBRARY_IMPL(aten, Negative, m) {
  register_lazy_sources(m);
}

TORCH_LIBRARY_IMPL(aten, ZeroTensor, m) {
  register_lazy_sources(m);
}

}  // namespace
}  // namespace inductor_npu
