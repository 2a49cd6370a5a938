// Operators of npu that compiled code calls in a row, so that their time on the host counts: the library's kernel is
// called by its own signature. The fallback, which serves every operator, boxes arguments and looks up what the schema
// says of them.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>

#include <exception>
#include <tuple>
#include <type_traits>

#include "fallback.h"
#include "graph.h"
#include "library.h"
#include "timeline.h"

namespace inductor_npu {

// The kernel of `Op`, a class of ATen/Operators.h whose arguments are tensors and numbers, the first one a tensor, and
// whose result is one tensor, new or the last argument. All else is left to the fallback: captures, tensors of the CPU or
// of other layouts, types that the library lacks, and what an error says.
template <class Op, class Schema = typename Op::schema>
struct DirectCall;

template <class Op, class Result, class... Args>
struct DirectCall<Op, Result(Args...)> {
  static Result run(Args... args) {
    const c10::Device device = std::get<0>(std::tie(args...)).device();
    if (!(is_plain(args, device) && ...) || capturing_graph(native(current_stream(device.index()))) != nullptr) {
      return run_boxed(args...);
    }
    LibraryView view(device);
    const library::InOrder order(device);  // outside of `try`: what it raises is the failure of earlier work
    const timeline::HostWork work(Op::name, device.index());
    try {
      std::tuple<std::decay_t<Args>...> aliases{as_library(view, args)...};
      if constexpr (!kWrites) {
        return view.to_npu(std::apply(&redispatch, aliases));
      } else {
        const at::Tensor& written = last(args...);
        view.written(written);
        std::apply(&redispatch, aliases);
        view.write_back(written, std::get<sizeof...(Args) - 1>(aliases));
      }
    } catch (c10::OutOfMemoryError& error) {
      error.add_context(c10::str("operator ", handle().operator_name(), " on ", device));
      throw;
    } catch (const std::exception&) {
      return run_boxed(args...);
    }
    if constexpr (kWrites) {
      return last(args...);
    }
  }

 private:
  static constexpr bool kWrites = std::is_reference_v<Result>;

  static bool is_plain(const at::Tensor& tensor, c10::Device device) {
    return tensor.defined() && tensor.device() == device && LibraryView::is_plain(tensor);
  }
  template <class Number>
  static bool is_plain(const Number& /*number*/, c10::Device /*device*/) {
    return true;
  }

  static at::Tensor as_library(LibraryView& view, const at::Tensor& tensor) { return view.to_library(tensor); }
  template <class Number>
  static const Number& as_library(LibraryView& /*view*/, const Number& number) {
    return number;
  }

  static Result redispatch(std::decay_t<Args>&... args) {
    return Op::redispatch(c10::DispatchKeySet(library::kDense), args...);
  }

  static auto& last(Args&... args) { return std::get<sizeof...(Args) - 1>(std::tie(args...)); }

  static const c10::OperatorHandle& handle() {
    static const auto op = c10::Dispatcher::singleton().findSchemaOrThrow(Op::name, Op::overload_name);
    return op;
  }

  static Result run_boxed(Args... args) {
    torch::jit::Stack stack;
    torch::jit::push(stack, args...);
    run_in_library(handle(), c10::DispatchKeySet(library::kDense), &stack);
    if constexpr (kWrites) {
      return last(args...);
    } else {
      return torch::jit::pop(stack).toTensor();
    }
  }
};

}  // namespace inductor_npu
