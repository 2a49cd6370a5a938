#include "graph_operators.h"

#include <ATen/Functions.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <c10/core/DeviceGuard.h>
#include <c10/core/StorageImpl.h>
#include <c10/core/impl/LocalDispatchKeySet.h>

#include <unordered_map>
#include <utility>

#include "allocator.h"
#include "fallback.h"
#include "generator.h"
#include "host_calls.h"
#include "runtime.h"

namespace inductor_npu {
namespace {

std::string name_of(const c10::OperatorHandle& op) {
  return "operator " + c10::toString(op.operator_name());
}

[[noreturn]] void refuse_operator(const c10::OperatorHandle& op, const std::string& reason) {
  refuse_in_capture(native(current_stream()), name_of(op), reason.c_str());
  TORCH_INTERNAL_ASSERT(false, "the stream captures");
}

std::string first_line(const std::exception& error) {
  const auto* with_backtrace = dynamic_cast<const c10::Error*>(&error);
  const std::string text = with_backtrace != nullptr ? with_backtrace->what_without_backtrace() : error.what();
  return text.substr(0, text.find('\n'));
}

bool is_dense(const at::Tensor& tensor) {
  return tensor.layout() == at::kStrided && !tensor.is_quantized() && !tensor.is_nested();
}

// Replaces each tensor of `value`, also those of a list.
template <class Replace>
c10::IValue map_tensors(const c10::IValue& value, Replace&& replace) {
  if (value.isTensor()) {
    return value.toTensor().defined() ? replace(value.toTensor()) : value.toTensor();
  }
  if (value.isTensorList()) {
    std::vector<at::Tensor> tensors = value.toTensorVector();
    for (at::Tensor& tensor : tensors) {
      tensor = tensor.defined() ? replace(tensor) : tensor;
    }
    return tensors;
  }
  if (value.isOptionalTensorList()) {
    std::vector<std::optional<at::Tensor>> tensors = value.toOptionalTensorVector();
    for (std::optional<at::Tensor>& tensor : tensors) {
      if (tensor.has_value() && tensor->defined()) {
        tensor = replace(*tensor);
      }
    }
    return c10::List<std::optional<at::Tensor>>(tensors);
  }
  return value;
}

// The same elements as `tensor` has, over `storage`.
at::Tensor over(const c10::Storage& storage, c10::DispatchKey key, const at::Tensor& tensor) {
  const c10::TensorImpl* from = tensor.unsafeGetTensorImpl();
  at::Tensor made = at::detail::make_tensor<c10::TensorImpl>(c10::Storage(storage), c10::DispatchKeySet(key), from->dtype());
  c10::TensorImpl* to = made.unsafeGetTensorImpl();
  to->set_sizes_and_strides(from->sizes(), from->strides(), from->storage_offset());
  to->_set_conj(tensor.is_conj());
  to->_set_neg(tensor.is_neg());
  return made;
}

c10::Storage storage_over(void* data, size_t bytes, c10::Device device) {
  return c10::Storage(c10::make_intrusive<c10::StorageImpl>(c10::StorageImpl::use_byte_size_t(), bytes,
                                                            c10::DataPtr(data, device), /*allocator=*/nullptr,
                                                            /*resizable=*/false));
}

// Tensors over the memory of others that do not keep it alive: a graph's memory is its pool, or watched. Tensors that
// share a storage share one here.
class Borrowed {
 public:
  at::Tensor operator()(const at::Tensor& tensor) {
    if (!on_npu(tensor)) {
      return tensor;
    }
    const c10::StorageImpl* storage = tensor.storage().unsafeGetStorageImpl();
    auto found = storages_.find(storage);
    if (found == storages_.end()) {
      void* data = tensor.storage().mutable_data();
      found = storages_.emplace(storage, storage_over(data, storage->nbytes(), tensor.device())).first;
    }
    return over(found->second, c10::DispatchKey::PrivateUse1, tensor);
  }

 private:
  std::unordered_map<const c10::StorageImpl*, c10::Storage> storages_;
};

// Arguments without values, for shape inference, and what they stand for.
class Shapes {
 public:
  // Of a tensor of npu, or a number of the CPU.
  at::Tensor to_meta(const at::Tensor& tensor) {
    for (const auto& [real, meta] : tensors_) {
      if (real.is_same(tensor)) {
        return meta;
      }
    }
    const c10::StorageImpl* storage = tensor.storage().unsafeGetStorageImpl();
    auto found = storages_.find(storage);
    if (found == storages_.end()) {
      const c10::Storage meta(c10::make_intrusive<c10::StorageImpl>(
          c10::StorageImpl::use_byte_size_t(), storage->nbytes(), c10::DataPtr(nullptr, c10::kMeta),
          c10::GetAllocator(c10::kMeta), /*resizable=*/true));
      found = storages_.emplace(storage, meta).first;
    }
    at::Tensor meta = over(found->second, c10::DispatchKey::Meta, tensor);
    tensors_.emplace_back(tensor, meta);
    return meta;
  }

  // The argument that `meta` stands for, a view of one, or a new tensor of its sizes on `device`.
  at::Tensor to_npu(const at::Tensor& meta, c10::Device device) {
    for (const auto& [npu, known] : tensors_) {
      if (known.is_same(meta)) {
        return npu;
      }
      if (meta.has_storage() && known.storage().is_alias_of(meta.storage())) {
        return npu.as_strided(meta.sizes(), meta.strides(), meta.storage_offset());
      }
    }
    at::Tensor npu = at::empty_strided(meta.sizes(), meta.strides(), meta.options().device(device));
    tensors_.emplace_back(npu, meta);
    return npu;
  }

  // Gives arguments the sizes that the operator, which writes them, gave to what stands for them.
  void carry_back_sizes() {
    for (const auto& [npu, meta] : tensors_) {
      if (npu.sizes() != meta.sizes()) {
        npu.resize_(meta.sizes());
      }
    }
  }

 private:
  std::vector<std::pair<at::Tensor, at::Tensor>> tensors_;
  std::unordered_map<const c10::StorageImpl*, c10::Storage> storages_;
};

// Only the kernels of the device, whatever modes the thread is in that works off the stream.
class KernelsOnly {
 private:
  const c10::impl::ForceDispatchKeyGuard guard_{
      c10::default_included_set, c10::default_excluded_set | c10::autograd_dispatch_keyset_with_ADInplaceOrView};
};

// Makes the stream whose work this thread runs, which is of `device`, the current one.
//
// What the work allocates comes from a pool that only work of streams allocates from. Memory that the host has freed may
// be in use by what is queued behind this work; what work has freed is not.
class OnStream {
 public:
  explicit OnStream(c10::Device device)
      : device_(device),
        previous_(exchange_stream(c10::Stream(c10::Stream::UNSAFE, device, driver::stream_worked_off()))),
        previous_pool_(exchange_thread_pool(pool_of_work())) {}
  ~OnStream() {
    exchange_thread_pool(previous_pool_);
    exchange_stream(previous_);
  }
  OnStream(const OnStream&) = delete;
  OnStream& operator=(const OnStream&) = delete;

 private:
  static c10::MempoolId_t pool_of_work() {
    static const c10::MempoolId_t pool = new_pool_id(/*by_user=*/false);
    return pool;
  }

  const c10::DeviceGuard device_;
  const c10::Stream previous_;
  const c10::MempoolId_t previous_pool_;
};

c10::Device device_of(const torch::jit::Stack& arguments) {
  std::optional<c10::Device> device;
  for (const c10::IValue& argument : arguments) {
    visit_tensors(argument, [&](const at::Tensor& tensor) {
      if (on_npu(tensor) && !device.has_value()) {
        device = tensor.device();
      }
    });
  }
  return device.value_or(c10::Device(kNpu, current_device()));
}

// A number of the CPU with the value that it has now.
at::Tensor copy_of_number(const at::Tensor& number) {
  at::Tensor copy = number.clone();
  if (number.unsafeGetTensorImpl()->is_wrapped_number()) {
    copy.unsafeGetTensorImpl()->set_wrapped_number(true);
  }
  return copy;
}

// What a replay can use again: numbers of the CPU with the values that they have now, tensors of the device where they
// lie.
torch::jit::Stack check_arguments(const c10::OperatorHandle& op, torch::jit::Stack arguments) {
  for (size_t i = 0; i < arguments.size(); ++i) {
    arguments[i] = map_tensors(arguments[i], [&](const at::Tensor& tensor) {
      if (!is_dense(tensor)) {
        refuse_operator(op, "argument " + op.schema().arguments()[i].name() +
                                " is sparse, quantised or nested, and only dense tensors keep their place in memory");
      }
      if (!on_npu(tensor) && tensor.dim() > 0) {
        refuse_operator(op, "argument " + op.schema().arguments()[i].name() +
                                " is a tensor of the CPU, which a replay would not read again; move it to npu before "
                                "the capture");
      }
      return on_npu(tensor) ? tensor : copy_of_number(tensor);
    });
  }
  return arguments;
}

bool is_number_of_python(const at::Tensor& tensor) {
  return !on_npu(tensor) && tensor.unsafeGetTensorImpl()->is_wrapped_number();
}

// The arguments of a call without values. Numbers of Python stay as they are where `keep_numbers` says so: their types
// count less than those of tensors.
torch::jit::Stack without_values(const torch::jit::Stack& arguments, Shapes& shapes, bool keep_numbers) {
  torch::jit::Stack stack;
  for (const c10::IValue& argument : arguments) {
    if (argument.isDevice()) {
      stack.emplace_back(c10::Device(c10::kMeta));
    } else if (argument.isGenerator()) {
      stack.emplace_back();
    } else {
      stack.push_back(map_tensors(argument, [&](const at::Tensor& tensor) {
        return keep_numbers && is_number_of_python(tensor) ? tensor : shapes.to_meta(tensor);
      }));
    }
  }
  return stack;
}

// The results' sizes, as tensors of device meta.
torch::jit::Stack infer_shapes(const c10::OperatorHandle& op, const torch::jit::Stack& arguments, Shapes& shapes) {
  if (!op.hasComputedKernelForDispatchKey(c10::DispatchKey::Meta)) {
    refuse_operator(op, "it has no shape inference (dispatch key Meta), and its results need memory before it runs; "
                        "call it outside of the capture, or register a fake kernel with torch.library");
  }
  const KernelsOnly kernels;
  // With an out= argument, shape inference that PyTorch writes in Python takes no number of the CPU.
  for (const bool keep_numbers : {true, false}) {
    shapes = Shapes();  // a try that fails may have resized some
    torch::jit::Stack stack = without_values(arguments, shapes, keep_numbers);
    try {
      op.redispatchBoxed(c10::DispatchKeySet(c10::DispatchKey::Meta), &stack);
      return stack;
    } catch (const std::exception& error) {
      if (!keep_numbers) {
        refuse_operator(op, "its results' sizes are not known before it runs (" + first_line(error) +
                                "); call it outside of the capture");
      }
    }
  }
  TORCH_INTERNAL_ASSERT(false, "one of the two returns or raises");
}

// What is queued for a call: runs the operator as an eager call does, and stores its results where the capture put them.
struct RecordedCall {
  c10::OperatorHandle op;
  torch::jit::Stack arguments, results;
  c10::Device device;
  at::Generator random;  // undefined: draws nothing

  void operator()() const {
    const OnStream here(device);
    const KernelsOnly kernels;
    const DrawsFrom source(random);
    torch::jit::Stack stack = arguments;
    op.redispatchBoxed(c10::DispatchKeySet(kNpuKey), &stack);
    for (size_t i = 0; i < results.size(); ++i) {
      store(stack[i], results[i]);
    }
  }

 private:
  static constexpr c10::DispatchKey kNpuKey = c10::DispatchKey::PrivateUse1;

  static void store(const c10::IValue& computed, const c10::IValue& kept) {
    std::vector<at::Tensor> from, to;
    visit_tensors(computed, [&](const at::Tensor& tensor) { from.push_back(tensor); });
    visit_tensors(kept, [&](const at::Tensor& tensor) { to.push_back(tensor); });
    for (size_t i = 0; i < to.size(); ++i) {
      if (to[i].defined() && !from[i].is_same(to[i]) && from[i].data_ptr() != to[i].data_ptr()) {
        TORCH_CHECK(from[i].sizes() == to[i].sizes(), "its result has sizes ", from[i].sizes(), " and had ",
                    to[i].sizes(), " when it was captured");
        to[i].copy_(from[i]);
      }
    }
  }
};

}  // namespace

void capture_operator(CapturedGraph& graph, const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  const size_t count = op.schema().arguments().size();
  torch::jit::Stack arguments(stack->end() - static_cast<int64_t>(count), stack->end());
  arguments = check_arguments(op, std::move(arguments));
  const c10::Device device = device_of(arguments);
  Shapes shapes;
  torch::jit::Stack results = infer_shapes(op, arguments, shapes);
  {
    const at::AutoDispatchBelowADInplaceOrView below_autograd;
    shapes.carry_back_sizes();
    for (c10::IValue& result : results) {
      result = map_tensors(result, [&](const at::Tensor& meta) { return shapes.to_npu(meta, device); });
    }
  }
  Borrowed borrow;
  RecordedCall call{op, {}, {}, device, {}};
  if (op.hasTag(at::Tag::nondeterministic_seeded)) {
    call.random = default_generator(device.index()).graphsafe_get_state();
  }
  for (const c10::IValue& argument : arguments) {
    visit_tensors(argument, [&](const at::Tensor& tensor) {
      if (on_npu(tensor)) {
        graph.uses(tensor.const_data_ptr(), name_of(op));
      }
    });
    if (argument.isGenerator() && argument.toGenerator().device().type() == kNpu) {
      call.arguments.emplace_back(argument.toGenerator().graphsafe_get_state());
    } else {
      call.arguments.push_back(map_tensors(argument, borrow));
    }
  }
  for (const c10::IValue& result : results) {
    call.results.push_back(map_tensors(result, borrow));
  }
  driver::call(native(current_stream(device.index())), c10::toString(op.operator_name()), std::move(call));
  torch::jit::drop(*stack, count);
  stack->insert(stack->end(), std::make_move_iterator(results.begin()), std::make_move_iterator(results.end()));
}

void capture_call(CapturedGraph& graph, std::string name, const std::vector<at::Tensor>& tensors,
                  std::function<void(const std::vector<at::Tensor>&)> function) {
  Borrowed borrow;
  std::vector<at::Tensor> borrowed;
  for (const at::Tensor& tensor : tensors) {
    graph.uses(tensor.const_data_ptr(), name);
    borrowed.push_back(borrow(tensor));
  }
  const c10::Stream stream = current_stream();
  driver::call(native(stream), std::move(name), [device = stream.device(), borrowed, function = std::move(function)] {
    const OnStream here(device);
    const KernelsOnly kernels;
    function(borrowed);
  });
}

}  // namespace inductor_npu
