# InductorNpu::runtime: the embedded NPU's runtime, for C++ programs that run packages (docs/export.md).
#
# `python -m inductor_npu.export` builds the runtime and prints the arguments of cmake that this file needs.
if(NOT InductorNpu_RUNTIME OR NOT InductorNpu_INCLUDE)
  message(FATAL_ERROR "InductorNpu: call cmake with what `python -m inductor_npu.export` prints")
endif()

find_package(Torch REQUIRED)

add_library(InductorNpu::runtime SHARED IMPORTED)
set_target_properties(
  InductorNpu::runtime
  PROPERTIES IMPORTED_LOCATION "${InductorNpu_RUNTIME}"
             INTERFACE_INCLUDE_DIRECTORIES "${InductorNpu_INCLUDE}"
             INTERFACE_COMPILE_FEATURES cxx_std_20
             INTERFACE_LINK_LIBRARIES "${TORCH_LIBRARIES}")
