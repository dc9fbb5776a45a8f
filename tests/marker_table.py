"""Which tests are slow, and which start other processes: one table, read by conftest.py.

A line is a file, or a file and a test; all parameters of a test have its marks. `browser` and `cuda` need no table:
the first is a fixture, the second the reason of a skip.
"""

from __future__ import annotations

import re

#: More than about three seconds on a quiet machine, or a compilation of its own.
SLOW = (
    "tests/cli/test_fuelbreaks_command.py::test_a_plan_and_its_score",
    "tests/cluster/test_ray.py",
    "tests/compute/test_fingerprint.py::test_the_hash_seed_changes_no_kernel_of_ours",
    "tests/compute/test_kernels.py::test_the_cache_serves_other_processes_and_is_never_stale",
    "tests/compute/test_kernels.py::test_the_cache_serves_threads_too",
    "tests/docs/test_quickstart.py::test_the_first_ten_minutes",
    "tests/docs/test_schedulers.py",
    "tests/docs/test_site.py",
    "tests/docs/test_snippets.py",
    "tests/doctor/test_watch_counts.py",
    "tests/doctor/test_watch_harmless.py",
    "tests/doctor/test_watch_threads.py",
    "tests/envs/fire/test_fire_spread.py",
    "tests/envs/test_as_gymnasium.py::test_gymnasium_has_nothing_to_complain_of",
    "tests/envs/test_atari.py",
    "tests/envs/test_gym_packages.py",
    "tests/envs/test_misbehaving.py::test_an_exit_is_an_error_and_the_run_is_saved",
    "tests/envs/test_sfc.py::test_every_step_matches_the_twin",
    "tests/envs/test_sfc_baselines.py",
    "tests/envs/test_snake.py::test_every_step_matches_the_twin",
    "tests/export/test_exported_policies.py",
    "tests/learn/test_algorithms.py::test_every_algorithm_trains_snake_and_evaluates_without_chance",
    "tests/learn/test_distributions.py",
    "tests/learn/test_family.py",
    "tests/learn/test_family_resume.py",
    "tests/learn/test_own_variants.py::test_every_command_takes_it",
    "tests/learn/test_own_variants.py::test_trained_resumed_and_loaded",
    "tests/learn/test_pqn.py::test_it_plays_snake_better_than_chance",
    "tests/learn/test_tiny_mdps.py",
    "tests/networks/test_user_network.py::test_from_training_to_the_file",
    "tests/profile/test_profile_cli.py",
    "tests/replay/test_prioritized_learning.py",
    "tests/runs/test_forged_state.py::test_fires_that_cannot_be",
    "tests/runs/test_identity.py::test_no_damage_is_believed",
    "tests/runs/test_planted_files.py::test_a_resumed_run_follows_nothing",
    "tests/sweep/test_sweep_process.py",
    "tests/tools/test_lock.py::test_a_file_that_differs_from_its_hash_is_refused",
    "tests/tools/test_makefile.py",
    "tests/training/test_atari_runs.py",
    "tests/training/test_cpu_update.py::test_equals_autograd_and_leaves_nothing_behind",
    "tests/training/test_cpu_update.py::test_takes_batches_of_other_sizes",
    "tests/training/test_cuda_interpreted.py",
    "tests/training/test_demos.py",
    "tests/training/test_engine.py::test_a_finished_training_leaves_nothing_in_memory",
    "tests/training/test_engine.py::test_preparing_touches_nothing_that_is_read_later",
    "tests/training/test_engine.py::test_a_run_can_go_on_in_another_mode",
    "tests/training/test_fuelbreaks_runs.py",
    "tests/training/test_gym_runs.py",
    "tests/training/test_iterations.py::test_recording_equals_the_collector",
    "tests/training/test_iterations.py::test_several_iterations_equal_single_ones",
    "tests/training/test_memory.py::test_presets_fit",
    "tests/training/test_modes.py::test_compiled_learns_what_eager_learns",
    "tests/training/test_modes.py::test_preparing_leaves_no_trace",
    "tests/training/test_ranks.py",
    "tests/training/test_rank_processes.py",
    "tests/training/test_resume.py",
    "tests/training/test_signals.py::test_as_a_process_of_its_own",
    "tests/training/test_signals.py::test_checkpoints_by_time_change_nothing",
    "tests/training/test_space_runs.py",
    "tests/training/test_stack_runs.py",
    "tests/training/test_ray_actors.py::test_actors_play_and_are_replaced",
    "tests/training/test_workers.py",
    "tests/test_api_callbacks.py",
    "tests/test_examples.py::test_the_notebook_runs",
    "tests/test_examples.py::test_the_programs_on_the_python_interface",
    "tests/test_faults.py::test_no_fault_does_harm",
    "tests/test_faults.py::test_no_other_fault_does_harm",
)
#: Programs that are started and watched, killed or compared.
PROCESS = (
    "tests/architecture/test_layers.py::test_no_torch_is_imported",
    "tests/architecture/test_layers.py::test_the_function_train_and_the_package_training_do_not_share_a_name",
    "tests/cli/test_cli.py::test_a_real_terminal_gets_the_live_display",
    "tests/cli/test_cli.py::test_ctrl_c_saves_and_says_how_to_go_on",
    "tests/cli/test_limits.py",
    "tests/cli/test_flags.py::test_help_and_typos_do_not_wait_for_pytorch",
    "tests/cli/test_stranger_folder.py::test_nothing_beside_the_run_is_imported_or_obeyed",
    "tests/cli/test_trust.py::test_as_a_process_of_its_own",
    "tests/cluster/test_ray.py",
    "tests/compute/test_fingerprint.py::test_the_hash_seed_changes_no_kernel_of_ours",
    "tests/core/test_stragglers.py",
    "tests/doctor/test_stand_ins.py",
    "tests/compute/test_kernels.py::test_the_cache_serves_other_processes_and_is_never_stale",
    "tests/compute/test_kernels.py::test_the_cache_serves_threads_too",
    "tests/docs/test_quickstart.py::test_the_first_ten_minutes",
    "tests/docs/test_site.py",
    "tests/docs/test_snippets.py",
    "tests/doctor/test_doctor_command.py",
    "tests/doctor/test_watch_counts.py",
    "tests/doctor/test_watch_harmless.py",
    "tests/doctor/test_watch_process.py",
    "tests/doctor/test_watch_threads.py",
    "tests/envs/test_gym_actions.py::test_workers_take_actions_of_every_form",
    "tests/envs/fire/test_fire_spread.py::test_the_cuda_source_equals_the_cpus_in_the_simulator",
    "tests/envs/test_as_gymnasium.py::test_names_are_known_by_import_or_by_prefix",
    "tests/envs/test_atari.py::test_all_kinds_of_vectors_play_the_same_games",
    "tests/envs/test_gymnasium.py::test_environments_that_fail_are_named",
    "tests/envs/test_lives.py",
    "tests/envs/test_processes.py",
    "tests/export/test_export_command.py::test_acting_needs_no_pytorch",
    "tests/export/test_export_command.py::test_every_public_name_is_there_in_any_order",
    "tests/export/test_export_command.py::test_the_example_plays_a_game_without_pytorch",
    "tests/show/test_watch_server.py::test_ctrl_c_ends_it_at_once_and_frees_the_port",
    "tests/sweep/test_sweep_process.py",
    "tests/tools/test_lock.py::test_a_file_that_differs_from_its_hash_is_refused",
    "tests/tools/test_makefile.py",
    "tests/tools/test_setup_torch.py",
    "tests/training/test_ray_actors.py::test_actors_play_and_are_replaced",
    "tests/training/test_workers.py",
    "tests/training/test_cuda_interpreted.py",
    "tests/training/test_gym_runs.py::test_processes_learn_the_same",
    "tests/training/test_kill.py",
    "tests/training/test_ranks.py",
    "tests/training/test_rank_processes.py",
    "tests/docs/test_schedulers.py",
    "tests/training/test_signals.py::test_as_a_process_of_its_own",
    "tests/training/test_signals.py::test_workers_leave_signals_to_the_trainer",
    "tests/test_examples.py::test_the_notebook_runs",
    "tests/test_faults.py::test_no_fault_does_harm",
    "tests/test_faults.py::test_no_other_fault_does_harm",
)
#: What the reason of a skip says where a GPU is missing.
NEEDS_GPU = re.compile(r"(needs|for) .*\b(CUDA|GPU)\b")


def find_marks(node: str, fixtures: tuple[str, ...], skip_reasons: list[str]) -> set[str]:
    """The marks of a test, by its name in pytest (`file::test[parameters]`), its fixtures and its skips."""
    file, _, test = node.partition("::")
    names = {file, f"{file}::{test.partition('[')[0]}"}
    marks = {mark for mark, table in (("slow", SLOW), ("process", PROCESS)) if names & set(table)}
    if "browser" in fixtures:
        marks.add("browser")
    if any(NEEDS_GPU.search(reason) for reason in skip_reasons):
        marks.add("cuda")
    return marks
