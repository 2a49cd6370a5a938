// Products of matrices: what compiled code calls most, in a row.
#include <ATen/Operators.h>
#include <torch/library.h>

#include "direct_call.h"

namespace inductor_npu {
namespace {

template <class Op>
void add(torch::Library& m, const char* name) {
  m.impl(name, TORCH_FN(DirectCall<Op>::run));
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  add<at::_ops::mm>(m, "mm");
  add<at::_ops::mm_out>(m, "mm.out");
  add<at::_ops::addmm>(m, "addmm");
  add<at::_ops::addmm_out>(m, "addmm.out");
  add<at::_ops::bmm>(m, "bmm");
  add<at::_ops::bmm_out>(m, "bmm.out");
  add<at::_ops::baddbmm>(m, "baddbmm");
  add<at::_ops::baddbmm_out>(m, "baddbmm.out");
}

}  // namespace
}  // namespace inductor_npu
