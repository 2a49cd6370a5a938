// LibraryView: npu tensors re-labelled as tensors of the library and back.
#include <ATen/NestedTensorImpl.h>
#include <ATen/SparseCsrTensorImpl.h>
#include <ATen/SparseCsrTensorUtils.h>
#include <ATen/SparseTensorImpl.h>
#include <ATen/quantized/QTensorImpl.h>
#include <c10/core/StorageImpl.h>

#include <cstring>
#include <utility>

#include "fallback.h"
#include "library.h"
#include "runtime.h"

namespace inductor_npu {
namespace {

constexpr c10::DispatchKeySet kDenseNpu(c10::DispatchKey::PrivateUse1);
constexpr c10::DispatchKeySet kDenseAlias(library::kDense);
constexpr c10::DispatchKeySet kSpecialAlias{library::kSparse, library::kCompressed, library::kQuantised,
                                            library::kNested};

c10::Allocator* npu_allocator() {
  static c10::Allocator* const allocator = c10::GetAllocator(kNpu);
  return allocator;
}

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

// A copy in memory of the CPU's own, also where the thread allocates that of an npu.
at::Tensor on_host(const at::Tensor& tensor) {
  const library::AllocateOn host(std::nullopt);
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

LibraryView::LibraryView(c10::Device device, bool results_on_device)
    : device_(device),
      guard_(device),
      allocations_(results_on_device ? std::optional<c10::Device>(device) : std::nullopt) {}

bool LibraryView::is_plain(const at::Tensor& tensor) {
  constexpr c10::DispatchKeySet special{c10::DispatchKey::Sparse, c10::DispatchKey::SparseCsr,
                                        c10::DispatchKey::Quantized, c10::DispatchKey::NestedTensor};
  return tensor.key_set().has_any(c10::DispatchKeySet({c10::DispatchKey::Dense})) && !tensor.key_set().has_any(special);
}

c10::Storage LibraryView::library_storage(const c10::Storage& npu) {
  for (const StoragePair& pair : storages_) {
    if (pair.npu.unsafeGetStorageImpl() == npu.unsafeGetStorageImpl()) {
      return pair.alias;
    }
  }
  void* data = npu.unsafeGetStorageImpl()->mutable_data();
  const c10::Device device = library::device_for(npu.device());
  c10::Storage alias = make_storage(shared_memory(data, npu, device), npu.nbytes(), library::allocator());
  storages_.push_back({npu, std::move(alias), data});
  return storages_.back().alias;
}

at::Tensor LibraryView::to_library(const at::Tensor& tensor) {
  if (C10_UNLIKELY(!is_plain(tensor))) {
    return special_to_library(tensor);
  }
  for (const TensorPair& pair : tensors_) {
    if (pair.npu.is_same(tensor)) {
      return pair.alias;
    }
  }
  at::Tensor alias = make_like(library_storage(tensor.storage()), kDenseAlias, tensor);
  copy_requires_grad(tensor, alias);
  tensors_.push_back({tensor, std::move(alias)});
  return tensors_.back().alias;
}

at::Tensor LibraryView::special_to_library(const at::Tensor& tensor) {
  for (const TensorPair& pair : tensors_) {
    if (pair.npu.is_same(tensor)) {
      return pair.alias;
    }
  }
  at::Tensor alias;
  if (tensor.is_quantized()) {
    alias = make_quantized(library_storage(tensor.storage()), library::kQuantised, tensor);
  } else if (tensor.is_sparse()) {
    auto* impl = sparse_impl(tensor);
    alias = make_sparse(library::kSparse, tensor, to_library(impl->indices()), to_library(impl->values()));
  } else if (at::sparse_csr::is_sparse_compressed(tensor)) {
    auto* impl = at::sparse_csr::get_sparse_csr_impl(tensor);
    alias = make_compressed(library::kCompressed, library::device_for(tensor.device()), tensor, to_library(impl->compressed_indices()),
                          to_library(impl->plain_indices()), to_library(impl->values()));
  } else if (tensor.is_nested()) {
    auto* impl = at::native::get_nested_tensor_impl(tensor);
    alias = make_nested(library_storage(tensor.storage()), kDenseAlias, tensor, impl->get_nested_sizes(),
                      impl->get_nested_strides(), impl->get_storage_offsets());
  } else {
    TORCH_CHECK_NOT_IMPLEMENTED(false, "a tensor of type ", tensor.toString(), " (layout ", tensor.layout(),
                                ") is not supported on device npu; convert it to a dense tensor first");
  }
  copy_requires_grad(tensor, alias);
  keys_ = keys_ | (alias.key_set() & kSpecialAlias);
  tensors_.push_back({tensor, alias});
  return alias;
}

c10::Storage LibraryView::npu_storage(const c10::Storage& alias, bool sole_owner) {
  for (StoragePair& pair : storages_) {
    if (pair.alias.unsafeGetStorageImpl() == alias.unsafeGetStorageImpl()) {
      refresh(pair);
      return pair.npu;
    }
  }
  c10::StorageImpl* impl = alias.unsafeGetStorageImpl();
  const size_t bytes = impl->nbytes();
  void* data = impl->mutable_data();
  c10::DataPtr memory;
  if (data == nullptr) {
    memory = {nullptr, device_};
  } else if (!library::kQueues && !is_npu_pointer(data)) {
    // The kernel made its result in memory of its own, not through the allocator.
    const library::AllocateOn npu(device_);
    memory = library::allocator()->allocate(bytes);
    memory.unsafe_set_device(device_);
    std::memcpy(memory.get(), data, bytes);
    driver::note_written(memory.get(), bytes);
  } else if (sole_owner) {
    memory = impl->set_data_ptr(c10::DataPtr(nullptr, alias.device()));
    memory.unsafe_set_device(device_);
  } else {
    memory = shared_memory(data, alias, device_);
  }
  c10::Storage npu = make_storage(std::move(memory), bytes, npu_allocator());
  storages_.push_back({npu, alias, data});
  return npu;
}

// An operator that resized its argument replaced the memory of the CPU storage: gives it to the npu storage.
void LibraryView::refresh(StoragePair& pair) {
  c10::StorageImpl* alias = pair.alias.unsafeGetStorageImpl();
  void* data = const_cast<void*>(alias->data());
  if (data == pair.data || data == nullptr) {
    return;
  }
  TORCH_INTERNAL_ASSERT(is_npu_pointer(data), "a resized npu storage must stay in npu memory");
  c10::StorageImpl* npu = pair.npu.unsafeGetStorageImpl();
  c10::DataPtr memory = alias->set_data_ptr(c10::DataPtr(nullptr, alias->device()));
  memory.unsafe_set_device(device_);
  npu->set_data_ptr_noswap(std::move(memory));
  npu->set_nbytes(alias->nbytes());
  alias->set_data_ptr_noswap(shared_memory(data, pair.npu, alias->device()));
  pair.data = data;
}

at::Tensor LibraryView::to_npu(const at::Tensor& tensor) {
  for (const TensorPair& pair : tensors_) {
    if (pair.alias.is_same(tensor)) {
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

at::Tensor LibraryView::special_to_npu(const at::Tensor& tensor) {
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

void LibraryView::write_back_sparse(const at::Tensor& npu, const at::Tensor& alias) {
  if (npu.is_sparse()) {
    auto* from = sparse_impl(alias);
    auto* to = sparse_impl(npu);
    const at::Tensor indices = to_npu(from->indices()), values = to_npu(from->values());
    to->resize_(from->sparse_dim(), from->dense_dim(), from->sizes());
    to->set_indices_and_values_unsafe(indices, values);
    to->set_coalesced(from->coalesced());
  } else if (at::sparse_csr::is_sparse_compressed(npu)) {
    auto* from = at::sparse_csr::get_sparse_csr_impl(alias);
    at::sparse_csr::get_sparse_csr_impl(npu)->set_member_tensors(
        to_npu(from->compressed_indices()), to_npu(from->plain_indices()), to_npu(from->values()), alias.sizes());
  }
}

void LibraryView::written(const at::Tensor& npu) const {
  if (npu.has_storage()) {
    driver::note_allocation_written(npu.storage().data());
    return;
  }
  for (const StoragePair& pair : storages_) {  // a sparse tensor: its parts are among them
    driver::note_allocation_written(pair.npu.data());
  }
}

void LibraryView::write_back(const at::Tensor& npu, const at::Tensor& alias) {
  if (C10_UNLIKELY(!npu.has_storage())) {
    write_back_sparse(npu, alias);
    return;
  }
  if (C10_UNLIKELY(npu.is_nested())) {
    return;  // no operator changes more of it than elements
  }
  c10::TensorImpl* to = npu.unsafeGetTensorImpl();
  const c10::TensorImpl* from = alias.unsafeGetTensorImpl();
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
