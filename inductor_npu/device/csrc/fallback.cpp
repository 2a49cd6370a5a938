// The kernel of device npu for every operator that has no other: the library's, on the same memory.
#include "fallback.h"

#include <ATen/core/enum_tag.h>
#include <ATen/core/List.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <torch/library.h>

#include <algorithm>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <unordered_set>

#include "generator.h"
#include "graph_operators.h"
#include "runtime.h"
#include "sync_debug.h"
#include "timeline.h"
#include "wider_types.h"

namespace inductor_npu {
namespace {

using library::kCompressed, library::kDense, library::kNested, library::kQuantised, library::kSparse;

// What the schema of an operator says, worked out once.
struct Plan {
  size_t arguments = 0, returns = 0;
  bool only_views = true;       // no bytes are read or written: no need to wait for the stream
  bool depends_on_values = false;  // its results' sizes, or what the host gets
  bool any_cpu_tensor = false;  // CPU tensors of any size may be mixed in
  c10::SmallVector<bool, 12> written, generator, cpu_tensor_allowed;
  WidenedTypes widened = WidenedTypes::kFloats;
};

// Arguments that stay on the CPU by the operator's definition, as on CUDA.
bool takes_cpu_tensor(const std::string& op, const std::string& argument) {
  static const std::unordered_set<std::string> table = {
      "aten::index indices",
      "aten::index_put indices",
      "aten::index_put_ indices",
      "aten::_index_put_impl_ indices",
      "aten::_index_put_impl indices",
      "aten::_unsafe_index indices",
      "aten::_unsafe_index_put indices",
      "aten::_pack_padded_sequence lengths",
      "aten::_pack_padded_sequence_backward batch_sizes",
      // The sizes of nested tensors are the host's.
      "aten::_nested_from_padded cpu_nested_shape_example",
      "aten::_nested_view_from_buffer nested_size",
      "aten::_nested_view_from_buffer nested_strides",
      "aten::_nested_view_from_buffer offsets",
  };
  return table.count(op + " " + argument) > 0;
}

Plan make_plan(const c10::OperatorHandle& op) {
  const c10::FunctionSchema& schema = op.schema();
  Plan plan;
  plan.arguments = schema.arguments().size();
  plan.returns = schema.returns().size();
  plan.any_cpu_tensor = schema.name().rfind("aten::", 0) != 0;
  plan.widened = widened_types(schema.name());
  plan.depends_on_values = op.hasTag(at::Tag::dynamic_output_shape) || op.hasTag(at::Tag::data_dependent_output);
  for (const c10::Argument& argument : schema.arguments()) {
    const c10::AliasInfo* alias = argument.alias_info();
    plan.written.push_back(alias != nullptr && alias->isWrite());
    plan.generator.push_back(argument.type()->isSubtypeOf(*c10::OptionalType::create(c10::GeneratorType::get())));
    plan.cpu_tensor_allowed.push_back(plan.any_cpu_tensor || takes_cpu_tensor(schema.name(), argument.name()));
  }
  for (const c10::Argument& result : schema.returns()) {
    const c10::AliasInfo* alias = result.alias_info();
    plan.only_views &= alias != nullptr && !alias->isWrite();
  }
  plan.only_views &= plan.returns > 0;
  return plan;
}

// Operators of PyTorch itself are never redefined: their plans are kept, by the address of the schema.
const Plan& plan_of(const c10::OperatorHandle& op, Plan& storage) {
  thread_local std::unordered_map<const void*, std::unique_ptr<Plan>> plans;
  const void* key = &op.schema();
  const auto found = plans.find(key);
  if (found != plans.end()) {
    return *found->second;
  }
  if (op.schema().name().rfind("aten::", 0) != 0) {
    storage = make_plan(op);
    return storage;
  }
  return *plans.emplace(key, std::make_unique<Plan>(make_plan(op))).first->second;
}

[[noreturn]] void raise_mixed(const c10::OperatorHandle& op, size_t argument, c10::Device one, c10::Device other) {
  TORCH_CHECK(false, "Expected all tensors to be on the same device, but found at least two devices, ", one, " and ",
              other, "! (when checking argument ", op.schema().arguments()[argument].name(), " of operator ",
              op.operator_name(), ")");
}

// The device that the call is for: that of its npu tensors, else its device argument, else the current one. Checks that
// they agree.
c10::Device device_of_call(const c10::OperatorHandle& op, const Plan& plan, c10::ArrayRef<c10::IValue> args) {
  std::optional<c10::Device> device, argument_device;
  for (size_t i = 0; i < args.size(); ++i) {
    if (args[i].isDevice() && args[i].toDevice().type() == kNpu) {
      argument_device = args[i].toDevice();
    }
    visit_tensors(args[i], [&](const at::Tensor& tensor) {
      if (!on_npu(tensor)) {
        return;
      }
      if (device.has_value() && *device != tensor.device()) {
        raise_mixed(op, i, *device, tensor.device());
      }
      device = tensor.device();
    });
  }
  if (!device.has_value()) {
    device = argument_device.value_or(c10::Device(kNpu, -1));
  }
  if (!device->has_index()) {
    device = c10::Device(kNpu, current_device());
  }
  for (size_t i = 0; i < args.size(); ++i) {
    visit_tensors(args[i], [&](const at::Tensor& tensor) {
      const bool fits = !tensor.defined() || tensor.device().type() == kNpu || plan.cpu_tensor_allowed[i] ||
                        (tensor.dim() == 0 && !plan.written[i] && tensor.is_cpu());
      if (!fits) {
        raise_mixed(op, i, *device, tensor.device());
      }
    });
  }
  return *device;
}

// The arguments of one call, in place on the stack, and what has to be carried back to them.
class Arguments {
 public:
  Arguments(LibraryView& view, const Plan& plan, c10::Device device) : view_(view), plan_(plan), device_(device) {}

  void to_library(torch::jit::Stack* stack) {
    c10::IValue* args = stack->data() + stack->size() - plan_.arguments;
    for (size_t i = 0; i < plan_.arguments; ++i) {
      to_library(args[i], i);
    }
  }

  void write_back() {
    for (const auto& [npu, alias] : written_) {
      view_.write_back(npu, alias);
    }
  }

 private:
  void to_library(c10::IValue& value, size_t i) {
    if (value.isTensor()) {
      const at::Tensor& tensor = value.toTensor();
      if (on_npu(tensor)) {
        value = to_library(tensor, i);
      }
    } else if (value.isTensorList()) {
      std::vector<at::Tensor> tensors = value.toTensorVector();
      for (at::Tensor& tensor : tensors) {
        if (on_npu(tensor)) {
          tensor = to_library(tensor, i);
        }
      }
      value = std::move(tensors);
    } else if (value.isOptionalTensorList()) {
      std::vector<std::optional<at::Tensor>> tensors = value.toOptionalTensorVector();
      for (std::optional<at::Tensor>& tensor : tensors) {
        if (tensor.has_value() && on_npu(*tensor)) {
          tensor = to_library(*tensor, i);
        }
      }
      value = c10::List<std::optional<at::Tensor>>(tensors);
    } else if (value.isDevice()) {
      value = library::device_for(device_);
    } else if (plan_.generator[i]) {
      value = draw_from(value.isNone() ? default_generator(device_.index()) : value.toGenerator());
    }
  }

  at::Tensor to_library(const at::Tensor& npu, size_t i) {
    at::Tensor alias = view_.to_library(npu);
    if (plan_.written[i]) {
      written_.emplace_back(npu, alias);
    }
    if (plan_.written[i] || plan_.any_cpu_tensor) {  // what is not PyTorch's may write more than its schema says
      view_.written(npu);
    }
    return alias;
  }

  LibraryView& view_;
  const Plan& plan_;
  const c10::Device device_;
  c10::SmallVector<std::pair<at::Tensor, at::Tensor>, 4> written_;
};

void check_kernel(const c10::OperatorHandle& op, c10::DispatchKeySet keys) {
  const c10::DispatchKey key = keys.highestPriorityTypeId();
  TORCH_CHECK_NOT_IMPLEMENTED(key != kNested || op.hasComputedKernelForDispatchKey(key), "operator ",
                              op.operator_name(), " takes no nested tensors of layout torch.strided, neither on device "
                              "npu nor on ", library::kDevice, ": unbind() them, make them dense with torch.nested.to_padded_tensor, "
                              "or use layout torch.jagged");
  TORCH_CHECK_NOT_IMPLEMENTED(op.hasComputedKernelForDispatchKey(key), "operator ", op.operator_name(),
                              " is not implemented for device npu: the kernel of ", key,
                              " would serve npu tensors, but there is none. Call it on another device, or register a "
                              "kernel with torch.library.impl(\"",
                              op.operator_name(), "\", \"npu\")");
}

// Indexing, where no mask is among the indices: its result's size is that of the indices.
bool is_index_by_numbers(const c10::OperatorHandle& op, c10::ArrayRef<c10::IValue> args) {
  if (op.schema().name() != "aten::index") {
    return false;
  }
  bool by_numbers = true;
  visit_tensors(args[1], [&](const at::Tensor& index) {
    by_numbers &= !index.defined() || (index.scalar_type() != at::kBool && index.scalar_type() != at::kByte);
  });
  return by_numbers;
}

// What queues its work is captured as it stands, if a replay can do the same again.
void check_capture(CapturedGraph& graph, const c10::OperatorHandle& op, const Plan& plan,
                   c10::ArrayRef<c10::IValue> args) {
  const std::string name = "operator " + c10::toString(op.operator_name());
  driver::Stream* stream = native(current_stream());
  if (plan.depends_on_values && !is_index_by_numbers(op, args)) {
    refuse_in_capture(stream, name, "its results' sizes are not known, or what it returns depends on values; call it "
                      "outside of the capture");
  }
  const auto& refused = library::kNotCaptured;
  if (std::find(refused.begin(), refused.end(), op.schema().name()) != refused.end()) {
    refuse_in_capture(stream, name, "its library works with the host meanwhile; call it outside of the capture");
  }
  const bool takes_generator = std::find(plan.generator.begin(), plan.generator.end(), true) != plan.generator.end();
  if (op.hasTag(at::Tag::nondeterministic_seeded) && !takes_generator) {
    refuse_in_capture(stream, name, "it draws random numbers from a generator of its library's, and each replay would "
                      "draw the same; draw them before, outside of the capture");
  }
  for (size_t i = 0; i < args.size(); ++i) {
    visit_tensors(args[i], [&](const at::Tensor& tensor) {
      if (tensor.defined() && !on_npu(tensor) && tensor.dim() > 0) {
        refuse_in_capture(stream, name, "argument " + op.schema().arguments()[i].name() + " is a tensor of the CPU, "
                          "which a replay would not read again; move it to npu before the capture");
      }
      if (on_npu(tensor) && tensor.has_storage()) {
        graph.uses(tensor.storage().data(), name);
      }
    });
  }
}

c10::IValue result_to_npu(LibraryView& view, c10::IValue value) {
  if (value.isTensor()) {
    at::Tensor tensor = std::move(value).toTensor();
    return tensor.defined() ? view.to_npu(tensor) : tensor;
  }
  if (value.isTensorList()) {
    std::vector<at::Tensor> tensors = std::move(value).toTensorVector();
    for (at::Tensor& tensor : tensors) {
      if (tensor.defined()) {
        tensor = view.to_npu(tensor);
      }
    }
    return tensors;
  }
  return value;
}

// The boxed kernel for what PyTorch dispatches to the kernels of `key` of the library.
template <c10::DispatchKey key>
void run_as(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  run_in_library(op, c10::DispatchKeySet(key), stack);
}

template <c10::DispatchKey key>
torch::CppFunction kernel_as() {
  return torch::CppFunction::makeFromBoxedFunction<&run_as<key>>();
}

// Where the library has a kernel of its own, that kernel is also the npu's: PyTorch would choose a composite one first,
// which takes several operators for the same, or (for sparse tensors) only says that it is not implemented.
void register_library_kernels() {
  struct Kind {
    c10::DispatchKey library, npu;
    torch::CppFunction (*kernel)();
  };
  static constexpr Kind kinds[] = {
      {kDense, c10::DispatchKey::PrivateUse1, &kernel_as<kDense>},
      {kSparse, c10::DispatchKey::SparsePrivateUse1, &kernel_as<kSparse>},
      {kCompressed, c10::DispatchKey::SparseCsrPrivateUse1, &kernel_as<kCompressed>},
      {kQuantised, c10::DispatchKey::QuantizedPrivateUse1, &kernel_as<kQuantised>},
      {kNested, c10::DispatchKey::NestedTensorPrivateUse1, &kernel_as<kNested>},
  };
  static torch::Library library(torch::Library::IMPL, "aten", std::nullopt, __FILE__, __LINE__);
  for (const c10::OperatorName& name : c10::Dispatcher::singleton().getAllOpNames()) {
    const auto op = c10::Dispatcher::singleton().findOp(name);
    if (name.getNamespace() != "aten" || !op.has_value() || !op->hasSchema()) {
      continue;
    }
    const bool composite = op->hasKernelForDispatchKey(c10::DispatchKey::CompositeExplicitAutograd) ||
                           op->hasKernelForDispatchKey(c10::DispatchKey::CompositeExplicitAutogradNonFunctional) ||
                           op->hasKernelForDispatchKey(c10::DispatchKey::CompositeImplicitAutograd);
    for (const Kind& kind : kinds) {
      if (composite && op->hasKernelForDispatchKey(kind.library) && !op->hasKernelForDispatchKey(kind.npu)) {
        library.impl(c10::toString(name).c_str(), torch::dispatch(kind.npu, kind.kernel()));
      }
    }
  }
}

}  // namespace

void prefer_library_kernels() {
  static std::once_flag once;
  std::call_once(once, register_library_kernels);
}

void run_in_library(const c10::OperatorHandle& op, c10::DispatchKeySet kernels, torch::jit::Stack* stack) {
  Plan own;
  const Plan& plan = plan_of(op, own);
  const c10::Device device = device_of_call(op, plan, torch::jit::last(stack, plan.arguments));
  if (!plan.only_views) {
    const c10::OptionalDeviceGuard guard(device);
    if (CapturedGraph* graph = capturing_graph_here(); C10_UNLIKELY(graph != nullptr)) {
      if constexpr (library::kQueues) {
        check_capture(*graph, op, plan, torch::jit::last(stack, plan.arguments));
      } else {
        capture_operator(*graph, op, stack);
        return;
      }
    }
  }
  LibraryView view(device);
  std::optional<library::InOrder> order;
  if (!plan.only_views) {
    if (plan.depends_on_values) {
      host_waits_for(op.schema().name().c_str());
    }
    order.emplace(device);
  }
  Arguments arguments(view, plan, device);
  arguments.to_library(stack);
  kernels = kernels | view.keys();
  check_kernel(op, kernels);
  const timeline::HostWork work(plan.only_views ? nullptr : op.schema().name().c_str(), device.index());
  const c10::ArrayRef<c10::IValue> args = torch::jit::last(stack, plan.arguments);
  std::vector<c10::IValue> kept;  // a kernel that fails may have taken its arguments from the stack
  if (C10_UNLIKELY(has_narrow_types(args, plan.widened))) {
    kept = args.vec();
  }
  const size_t below = stack->size() - plan.arguments;
  try {
    try {
      op.redispatchBoxed(kernels, stack);
    } catch (const c10::Error& error) {
      if (kept.empty() || !lacks_kernel_of_type(error)) {
        throw;
      }
      stack->resize(below);
      if (!run_in_wider_types(op, kernels, kept, plan.widened, stack)) {
        throw;
      }
    }
  } catch (c10::Error& error) {
    error.add_context(c10::str("operator ", op.operator_name(), " on ", device));
    throw;
  } catch (const std::exception& error) {
    TORCH_CHECK(false, error.what(), " (operator ", op.operator_name(), " on ", device, ")");
  }
  for (c10::IValue* result = stack->data() + stack->size() - plan.returns; result != stack->data() + stack->size();
       ++result) {
    *result = result_to_npu(view, std::move(*result));
  }
  arguments.write_back();
}

TORCH_LIBRARY_IMPL(_, PrivateUse1, m) {
  m.fallback(kernel_as<kDense>());
}

TORCH_LIBRARY_IMPL(_, SparsePrivateUse1, m) {
  m.fallback(kernel_as<kSparse>());
}

TORCH_LIBRARY_IMPL(_, SparseCsrPrivateUse1, m) {
  m.fallback(kernel_as<kCompressed>());
}

TORCH_LIBRARY_IMPL(_, QuantizedPrivateUse1, m) {
  m.fallback(kernel_as<kQuantised>());
}

TORCH_LIBRARY_IMPL(_, NestedTensorPrivateUse1, m) {
  m.fallback(kernel_as<kNested>());
}

}  // namespace inductor_npu
