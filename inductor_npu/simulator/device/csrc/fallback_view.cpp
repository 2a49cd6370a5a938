// HostView: npu tensors re-labelled as CPU tensors and back, and the allocator that lets results be born in npu memory.
#include <ATen/NestedTensorImpl.h>
#include <ATen/SparseCsrTensorImpl.h>
#include <ATen/SparseCsrTensorUtils.h>
#include <ATen/SparseTensorImpl.h>
#include <ATen/quantized/QTensorImpl.h>
#include <c10/core/CPUAllocator.h>
#include <c10/core/StorageImpl.h>

#include <cstring>
#include <utility>

#include "fallback.h"
#include "memory_check.h"
#include "runtime.h"

namespace inductor_npu {
namespace {

constexpr c10::DispatchKeySet kDenseNpu(c10::DispatchKey::PrivateUse1);
constexpr c10::DispatchKeySet kDenseCpu(c10::DispatchKey::CPU);
constexpr c10::DispatchKeySet kSpecialCpu{c10::DispatchKey::SparseCPU, c10::DispatchKey::SparseCsrCPU,
                                          c10::DispatchKey::QuantizedCPU, c10::DispatchKey::NestedTensorCPU};

// Where this thread's CPU allocations go: the CPU, or the memory of an npu.
thread_local c10::Device allocation_device(c10::kCPU);

c10::Allocator* npu_allocator() {
  static c10::Allocator* const allocator = c10::GetAllocator(kNpu);
  return allocator;
}

// PyTorch's CPU allocator, except on a thread that runs an operator for an npu: there it gives npu memory labelled as
// the CPU's.
class RedirectingAllocator final : public c10::Allocator {
 public:
  c10::DataPtr allocate(size_t bytes) override {
    if (allocation_device.is_cpu() || bytes == 0) {
      return host->allocate(bytes);
    }
    c10::DataPtr memory = npu_allocator()->allocate(bytes);
    memory.unsafe_set_device(c10::kCPU);
    memory_check::allocation_written(memory.get());  // the operator will
    return memory;
  }
  c10::DeleterFnPtr raw_deleter() const override { return &release; }
  void copy_data(void* destination, const void* source, size_t bytes) const override {
    default_copy_data(destination, source, bytes);
  }

 private:
  // Memory from raw_allocate (oneDNN's workspaces) may be of either kind.
  static void release(void* memory) { (is_npu_pointer(memory) ? npu_allocator() : host)->raw_deallocate(memory); }

  static inline c10::Allocator* const host = c10::GetCPUAllocator();
};

const bool redirected = [] {
  // Never destroyed: storages that outlive static destruction may still ask for it.
  c10::SetCPUAllocator(new RedirectingAllocator, /*priority=*/1);
  return true;
}();

void release_storage(void* storage) {
  c10::raw::intrusive_ptr::decref(static_cast<c10::StorageImpl*>(storage));
}

// Memory of `storage` under another label, keeping `storage` alive.
c10::DataPtr shared_memory(void* data, const c10::Storage& storage, c10::Device device) {
  c10::StorageImpl* impl = storage.unsafeGetStorageImpl();
  c10::raw::intrusive_ptr::incref(impl);
  return {data, impl, &release_storage, device};
}

c10::Storage make_storage(c10::DataPtr memory, size_t bytes, c10::Allocator* allocator) {
  return c10::Storage(c10::make_intrusive<c10::StorageImpl>(c10::StorageImpl::use_byte_size_t(), bytes,
                                                            std::move(memory), allocator, /*resizable=*/true));
}

bool is_plain(const at::Tensor& tensor) {
  constexpr c10::DispatchKeySet special{c10::DispatchKey::Sparse, c10::DispatchKey::SparseCsr,
                                        c10::DispatchKey::Quantized, c10::DispatchKey::NestedTensor};
  return tensor.key_set().has_any(c10::DispatchKeySet({c10::DispatchKey::Dense})) && !tensor.key_set().has_any(special);
}

at::SparseTensorImpl* sparse_impl(const at::Tensor& tensor) {
  return static_cast<at::SparseTensorImpl*>(tensor.unsafeGetTensorImpl());
}

// Kernels ask for it: some save what only the backward pass needs.
void copy_requires_grad(const at::Tensor& from, const at::Tensor& to) {
  if (from.requires_grad()) {
    to.set_requires_grad(true);
  }
}

// The same elements of `storage` as `like` has of its own.
at::Tensor make_like(c10::Storage storage, c10::DispatchKeySet keys, const at::Tensor& like) {
  const c10::TensorImpl* from = like.unsafeGetTensorImpl();
  if (from->_is_zerotensor()) {
    keys = keys.add(c10::DispatchKey::ZeroTensor);
  }
  at::Tensor made = at::detail::make_tensor<c10::TensorImpl>(std::move(storage), keys, from->dtype());
  c10::TensorImpl* to = made.unsafeGetTensorImpl();
  to->set_sizes_and_strides(from->sizes(), from->strides(), from->storage_offset());
  if (from->is_wrapped_number()) {
    to->set_wrapped_number(true);
  }
  if (like.is_conj()) {
    to->_set_conj(true);
  }
  if (like.is_neg()) {
    to->_set_neg(true);
  }
  return made;
}

at::Tensor make_quantized(c10::Storage storage, c10::DispatchKey key, const at::Tensor& like) {
  auto* from = static_cast<at::QTensorImpl*>(like.unsafeGetTensorImpl());
  at::Tensor made = at::detail::make_tensor<at::QTensorImpl>(std::move(storage), c10::DispatchKeySet(key),
                                                             from->dtype(), from->quantizer());
  made.unsafeGetTensorImpl()->set_sizes_and_strides(from->sizes(), from->strides(), from->storage_offset());
  return made;
}

at::Tensor make_sparse(c10::DispatchKey key, const at::Tensor& like, at::Tensor indices, at::Tensor values) {
  auto* from = sparse_impl(like);
  at::Tensor made = at::detail::make_tensor<at::SparseTensorImpl>(c10::DispatchKeySet(key), from->dtype());
  auto* to = sparse_impl(made);
  to->resize_(from->sparse_dim(), from->dense_dim(), from->sizes());
  to->set_indices_and_values_unsafe(indices, values);
  to->set_coalesced(from->coalesced());
  return made;
}

at::Tensor make_compressed(c10::DispatchKey key, c10::Device device, const at::Tensor& like,
                           const at::Tensor& compressed, const at::Tensor& plain, const at::Tensor& values) {
  at::Tensor made =
      at::detail::make_tensor<at::SparseCsrTensorImpl>(c10::DispatchKeySet(key), device, like.layout(), like.dtype());
  at::sparse_csr::get_sparse_csr_impl(made)->set_member_tensors(compressed, plain, values, like.sizes());
  return made;
}

// Where this thread's CPU allocations go while it lives.
class AllocateOn {
 public:
  explicit AllocateOn(c10::Device device) : previous_(std::exchange(allocation_device, device)) {}
  ~AllocateOn() { allocation_device = previous_; }
  AllocateOn(const AllocateOn&) = delete;
  AllocateOn& operator=(const AllocateOn&) = delete;

 private:
  const c10::Device previous_;
};

// A copy in memory of the CPU's own, also where the thread allocates that of an npu.
at::Tensor on_host(const at::Tensor& tensor) {
  const AllocateOn cpu(c10::kCPU);
  return tensor.clone();
}

// Over the memory of `storage`, with sizes, strides and offsets, which are the host's on every device.
at::Tensor make_nested(c10::Storage storage, c10::DispatchKeySet dense, const at::Tensor& like, const at::Tensor& sizes,
                       const at::Tensor& strides, const at::Tensor& offsets) {
  const auto elements = static_cast<int64_t>(storage.nbytes() / like.itemsize());
  const at::Tensor buffer = at::detail::make_tensor<c10::TensorImpl>(std::move(storage), dense, like.dtype());
  buffer.unsafeGetTensorImpl()->set_sizes_contiguous({elements});
  return at::detail::make_tensor<at::native::NestedTensorImpl>(buffer, sizes, strides, offsets);
}

}  // namespace

HostView::HostView(c10::Device device, bool results_on_device)
    : device_(device), guard_(device), previous_(allocation_device) {
  allocation_device = results_on_device ? device : c10::Device(c10::kCPU);
}

HostView::~HostView() {
  allocation_device = previous_;
}

c10::Storage HostView::cpu_storage(const c10::Storage& npu) {
  for (const StoragePair& pair : storages_) {
    if (pair.npu.unsafeGetStorageImpl() == npu.unsafeGetStorageImpl()) {
      return pair.cpu;
    }
  }
  void* data = npu.unsafeGetStorageImpl()->mutable_data();
  c10::Storage cpu = make_storage(shared_memory(data, npu, c10::kCPU), npu.nbytes(), c10::GetCPUAllocator());
  storages_.push_back({npu, cpu, data});
  return cpu;
}

at::Tensor HostView::to_cpu(const at::Tensor& tensor) {
  if (C10_UNLIKELY(!is_plain(tensor))) {
    return special_to_cpu(tensor);
  }
  for (const TensorPair& pair : tensors_) {
    if (pair.npu.is_same(tensor)) {
      return pair.cpu;
    }
  }
  at::Tensor cpu = make_like(cpu_storage(tensor.storage()), kDenseCpu, tensor);
  copy_requires_grad(tensor, cpu);
  tensors_.push_back({tensor, cpu});
  return cpu;
}

at::Tensor HostView::special_to_cpu(const at::Tensor& tensor) {
  for (const TensorPair& pair : tensors_) {
    if (pair.npu.is_same(tensor)) {
      return pair.cpu;
    }
  }
  at::Tensor cpu;
  if (tensor.is_quantized()) {
    cpu = make_quantized(cpu_storage(tensor.storage()), c10::DispatchKey::QuantizedCPU, tensor);
  } else if (tensor.is_sparse()) {
    auto* impl = sparse_impl(tensor);
    cpu = make_sparse(c10::DispatchKey::SparseCPU, tensor, to_cpu(impl->indices()), to_cpu(impl->values()));
  } else if (at::sparse_csr::is_sparse_compressed(tensor)) {
    auto* impl = at::sparse_csr::get_sparse_csr_impl(tensor);
    cpu = make_compressed(c10::DispatchKey::SparseCsrCPU, c10::kCPU, tensor, to_cpu(impl->compressed_indices()),
                          to_cpu(impl->plain_indices()), to_cpu(impl->values()));
  } else if (tensor.is_nested()) {
    auto* impl = at::native::get_nested_tensor_impl(tensor);
    cpu = make_nested(cpu_storage(tensor.storage()), kDenseCpu, tensor, impl->get_nested_sizes(),
                      impl->get_nested_strides(), impl->get_storage_offsets());
  } else {
    TORCH_CHECK_NOT_IMPLEMENTED(false, "a tensor of type ", tensor.toString(), " (layout ", tensor.layout(),
                                ") is not supported on device npu; convert it to a dense tensor first");
  }
  copy_requires_grad(tensor, cpu);
  keys_ = keys_ | (cpu.key_set() & kSpecialCpu);
  tensors_.push_back({tensor, cpu});
  return cpu;
}

c10::Storage HostView::npu_storage(const c10::Storage& cpu, bool sole_owner) {
  for (StoragePair& pair : storages_) {
    if (pair.cpu.unsafeGetStorageImpl() == cpu.unsafeGetStorageImpl()) {
      refresh(pair);
      return pair.npu;
    }
  }
  c10::StorageImpl* impl = cpu.unsafeGetStorageImpl();
  const size_t bytes = impl->nbytes();
  void* data = impl->mutable_data();
  c10::DataPtr memory;
  if (data == nullptr) {
    memory = {nullptr, device_};
  } else if (!is_npu_pointer(data)) {
    // The kernel made its result in memory of its own, not through the allocator.
    memory = npu_allocator()->allocate(bytes);
    std::memcpy(memory.get(), data, bytes);
    memory_check::written(memory.get(), bytes);
  } else if (sole_owner) {
    memory = impl->set_data_ptr(c10::DataPtr(nullptr, c10::kCPU));
    memory.unsafe_set_device(device_);
  } else {
    memory = shared_memory(data, cpu, device_);
  }
  c10::Storage npu = make_storage(std::move(memory), bytes, npu_allocator());
  storages_.push_back({npu, cpu, data});
  return npu;
}

// An operator that resized its argument replaced the memory of the CPU storage: gives it to the npu storage.
void HostView::refresh(StoragePair& pair) {
  c10::StorageImpl* cpu = pair.cpu.unsafeGetStorageImpl();
  void* data = const_cast<void*>(cpu->data());
  if (data == pair.data || data == nullptr) {
    return;
  }
  TORCH_INTERNAL_ASSERT(is_npu_pointer(data), "a resized npu storage must stay in npu memory");
  c10::StorageImpl* npu = pair.npu.unsafeGetStorageImpl();
  c10::DataPtr memory = cpu->set_data_ptr(c10::DataPtr(nullptr, c10::kCPU));
  memory.unsafe_set_device(device_);
  npu->set_data_ptr_noswap(std::move(memory));
  npu->set_nbytes(cpu->nbytes());
  cpu->set_data_ptr_noswap(shared_memory(data, pair.npu, c10::kCPU));
  pair.data = data;
}

at::Tensor HostView::to_npu(const at::Tensor& tensor) {
  for (const TensorPair& pair : tensors_) {
    if (pair.cpu.is_same(tensor)) {
      return pair.npu;
    }
  }
  if (C10_UNLIKELY(!is_plain(tensor))) {
    return special_to_npu(tensor);
  }
  // The storage is the result's alone if nobody else refers to the tensor (held by the operator's stack) or to the
  // storage.
  const bool sole_owner = tensor.use_count() == 1 && tensor.storage().use_count() == 1;
  at::Tensor npu = make_like(npu_storage(tensor.storage(), sole_owner), kDenseNpu, tensor);
  return npu;
}

at::Tensor HostView::special_to_npu(const at::Tensor& tensor) {
  if (tensor.is_quantized()) {
    return make_quantized(npu_storage(tensor.storage(), /*sole_owner=*/false), c10::DispatchKey::QuantizedPrivateUse1,
                          tensor);
  }
  if (tensor.is_sparse()) {
    auto* impl = sparse_impl(tensor);
    return make_sparse(c10::DispatchKey::SparsePrivateUse1, tensor, to_npu(impl->indices()), to_npu(impl->values()));
  }
  if (at::sparse_csr::is_sparse_compressed(tensor)) {
    auto* impl = at::sparse_csr::get_sparse_csr_impl(tensor);
    return make_compressed(c10::DispatchKey::SparseCsrPrivateUse1, device_, tensor, to_npu(impl->compressed_indices()),
                           to_npu(impl->plain_indices()), to_npu(impl->values()));
  }
  if (tensor.is_nested()) {
    auto* impl = at::native::get_nested_tensor_impl(tensor);
    return make_nested(npu_storage(tensor.storage(), /*sole_owner=*/false), kDenseNpu, tensor,
                       on_host(impl->get_nested_sizes()), on_host(impl->get_nested_strides()),
                       on_host(impl->get_storage_offsets()));
  }
  TORCH_CHECK_NOT_IMPLEMENTED(false, "a result of type ", tensor.toString(), " (layout ", tensor.layout(),
                              ") is not supported on device npu");
}

void HostView::write_back_sparse(const at::Tensor& npu, const at::Tensor& cpu) {
  if (npu.is_sparse()) {
    auto* from = sparse_impl(cpu);
    auto* to = sparse_impl(npu);
    const at::Tensor indices = to_npu(from->indices()), values = to_npu(from->values());
    to->resize_(from->sparse_dim(), from->dense_dim(), from->sizes());
    to->set_indices_and_values_unsafe(indices, values);
    to->set_coalesced(from->coalesced());
  } else if (at::sparse_csr::is_sparse_compressed(npu)) {
    auto* from = at::sparse_csr::get_sparse_csr_impl(cpu);
    at::sparse_csr::get_sparse_csr_impl(npu)->set_member_tensors(
        to_npu(from->compressed_indices()), to_npu(from->plain_indices()), to_npu(from->values()), cpu.sizes());
  }
}

void HostView::written(const at::Tensor& npu) const {
  if (!memory_check::is_on()) {
    return;
  }
  if (npu.has_storage()) {
    memory_check::allocation_written(npu.storage().data());
    return;
  }
  for (const StoragePair& pair : storages_) {  // a sparse tensor: its parts are among them
    memory_check::allocation_written(pair.npu.data());
  }
}

void HostView::write_back(const at::Tensor& npu, const at::Tensor& cpu) {
  if (C10_UNLIKELY(!npu.has_storage())) {
    write_back_sparse(npu, cpu);
    return;
  }
  if (C10_UNLIKELY(npu.is_nested())) {
    return;  // no operator changes more of it than elements
  }
  c10::TensorImpl* to = npu.unsafeGetTensorImpl();
  const c10::TensorImpl* from = cpu.unsafeGetTensorImpl();
  const c10::Storage storage = npu_storage(from->storage(), /*sole_owner=*/false);
  if (storage.unsafeGetStorageImpl() != to->storage().unsafeGetStorageImpl()) {
    to->set_storage_keep_dtype(storage);
  }
  if (to->sizes() != from->sizes() || to->strides() != from->strides() ||
      to->storage_offset() != from->storage_offset()) {
    to->set_sizes_and_strides(from->sizes(), from->strides(), from->storage_offset());
  }
}

}  // namespace inductor_npu
