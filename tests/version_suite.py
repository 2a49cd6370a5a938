"""The tests that every supported torch runs (`make test-versions`): for each class that derives from one of torch or
Triton, each touch of compat, and each hook that something is registered with, one that goes through it, and one model
in training.
"""

from __future__ import annotations

# Of a file without names all of its tests, of others those that are named, in every form that pytest gives them.
SUITE: dict[str, tuple[str, ...]] = {
    # What is compared with no compile: signatures, patches, versions, hooks.
    "tests/test_signatures.py": (),
    "tests/setup/test_compat.py": (),
    "tests/support/test_versions.py": (),
    "tests/setup/test_registration.py": (),
    # DeviceInterface, DeviceOpOverrides, the benchmarker; grids and launchers (GridExpr, TritonCompileResult).
    "tests/device_interface/test_interface.py": (),
    "tests/runtime/test_grid.py": (),
    "tests/runtime/test_launcher.py": (),
    "tests/tiling/test_candidates.py": (),
    # TritonScheduling, TritonKernel, its overrides, CSE, wrapper: kernels letter by letter, then values.
    "tests/codegen/test_golden.py": (),
    "tests/codegen/scheduling/test_choices.py": (),
    "tests/compile/test_without_strict.py": (),
    "tests/compile/test_pointwise.py": ("test_float_arithmetic", "test_conversions", "test_a_long_chain_is_one_kernel"),
    "tests/compile/test_reductions.py": (
        "test_row_length",
        "test_positions_count_in_the_order_of_the_tensor_not_of_memory",
        "test_full_reduction_of_a_large_tensor",
        "test_batch_and_group_normalisation",
    ),
    "tests/compile/test_scans.py": ("test_cumulative_sum_of_any_shape", "test_search_among_a_part_of_boundaries"),
    "tests/compile/test_pieces.py": ("test_concatenation", "test_edges_in_place"),
    "tests/compile/test_gather_by_index.py": ("test_shapes_of_gathers", "test_dynamic_sizes"),
    "tests/compile/test_indexing.py": ("test_index_put", "test_values_and_indices_may_be_the_tensor_that_is_written"),
    "tests/programs/test_control_flow.py": (
        "test_an_associative_scan_over_pairs",
        "test_an_associative_scan_in_one_kernel_is_refused",
    ),
    # WrapperFxCodegen, FxConverter, ahead-of-time compiling, torch.export, the runners of PyTorch's package loader.
    "tests/export/test_packages.py": (
        "test_kernels_and_operators",
        "test_a_layer_of_a_transformer",
        "test_a_kernel_that_a_user_wrote",
        "test_what_the_model_writes_is_written",
        "test_settings_of_inductor",
    ),
    "tests/export/test_weights.py": ("test_what_depends_on_weights_alone_is_computed_once_and_after_updates",),
    "tests/export/test_loading_alone.py": ("test_it_imports_none_of_them", "test_pytorchs_own_loader"),
    "tests/export/test_unpackable.py": ("test_aotinductor_names_ours",),
    # Captured graphs: the policy that Inductor asks, its parts, callables; optimizers; what follows torch's own tests.
    "tests/runtime/graph_capture/test_reduce_overhead.py": (),
    "tests/runtime/graph_capture/test_training.py": (),
    "tests/device/graphs/test_capture.py": (),
    "tests/device/graphs/test_graphed_callables.py": (),
    "tests/runtime/graph_capture/test_as_pytorch.py": ("TestMutation::test_data_of_a_parameter",),
    # The profiler of PrivateUse1 and Kineto's headers; the allocator's hooks, settings and snapshots; other processes.
    "tests/device/test_timeline.py": (),
    "tests/device/test_memory_history.py": (),
    "tests/device/test_filled_memory.py": ("test_a_graph_that_uses_memory_again_fills_it_and_computes_the_same",),
    "tests/device/test_sharing.py": (),
    # torch.distributed: the backend's C++ classes, Work, Future, the store; what Inductor makes of collectives.
    "tests/distributed/test_collectives.py": (),
    "tests/distributed/test_streams.py": (),
    "tests/distributed/test_compiled.py": (),
    "tests/distributed/test_training.py": (
        "test_data_parallel",
        "test_communication_hooks",
        "test_fully_sharded",
        "test_pipelines",
        "test_checkpoints",
        "test_random_numbers_of_distributed_tensors",
    ),
    "tests/distributed/test_faults.py": (
        "test_a_group_that_has_failed_says_why",
        "test_a_failure_follows_the_events",
        "test_ranks_that_disagree",
    ),
    # CachingAutotuner: candidates, tuning, other processes; combo kernels, knobs, logs.
    "tests/compile/test_modes.py": (),
    "tests/compile/test_tuning.py": (
        "test_without_a_device_the_cost_model_compares_and_nothing_is_compiled_but_the_winner",
    ),
    "tests/compile/test_user_kernels.py": ("test_user_kernel_between_generated_ones", "test_autotuned_user_kernel"),
    "tests/compile/test_accuracy_mode.py": ("test_the_first_kernel_that_differs_is_named",),
    "tests/codegen/scheduling/test_ahead_of_time.py": ("test_the_code_is_the_same_as_without_a_child",),
    "tests/cache/test_warmup.py": ("test_a_later_process_compiles_nothing",),
    # Dynamo: sizes, guards, the log of compile times; what is explained.
    "tests/compile/test_dynamic_shapes.py": (
        "test_marked_dimension_compiles_once",
        "test_dynamic_batch_with_gradients",
        "test_a_tensor_and_a_row_that_was_taken_from_it_between_two_graphs",
    ),
    "tests/diagnostics/compile_time/test_record.py": ("test_a_cold_training_step_goes_through_all_phases",),
    "tests/diagnostics/explanation/test_explain.py": (
        "test_one_graph_of_one_kernel",
        "test_a_graph_break_has_a_reason_and_the_users_line",
        "test_a_branch_of_cond_computes_its_operators_and_not_cond",
        "test_seeds_of_random_numbers_are_no_library_call",
    ),
    # The device pass, AOTAutograd, random numbers, checkpoints, donated buffers.
    "tests/lowering/graph_passes/required/test_saved_numbers.py": (),
    "tests/lowering/graph_passes/required/test_lengths_of_one.py": (),
    "tests/lowering/graph_passes/required/test_overwritten_sources.py": (),
    "tests/codegen/wrapper/test_donated_results.py": ("test_a_copy_is_saved_where_a_result_would_be_overwritten",),
    "tests/lowering/test_padding.py": (),
    "tests/lowering/graph_passes/test_inductor_passes.py": ("test_convolutions_take_their_operands_as_they_lie",),
    "tests/lowering/graph_passes/test_passes.py": (
        "test_all_run_by_default_in_their_order",
        "test_the_switch_is_part_of_the_cache_key",
        "test_passes_of_the_user_run_as_ever_and_see_the_graph_before_ours",
    ),
    "tests/compile/test_random.py": ("test_dropout_is_reproducible", "test_backward_uses_the_mask_of_forward"),
    "tests/programs/test_checkpointing.py": ("test_dropout_is_drawn_again_with_the_same_numbers",),
    "tests/compile/test_training.py": ("test_gradient_of_normalisation", "test_autocast"),
    # Triton's backend and driver.
    "tests/simulator/triton_backend/test_compiler.py": ("test_options_keep_what_is_known", "test_metadata_is_json"),
    "tests/simulator/triton_backend/test_driver.py": (
        "test_triton_finds_one_active_driver",
        "test_a_loaded_function_runs",
        "test_an_autotuner_skips_what_does_not_fit",
    ),
    "tests/models/test_models.py": ("test_training_step[bert]",),
}


def node_ids() -> list[str]:
    """What pytest is given."""
    return [f"{file}::{name}" if name else file for file, names in SUITE.items() for name in names or ("",)]
