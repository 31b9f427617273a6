"""The guards against each fault: the text of the product that holds it off, and the same without it.

Where the guard is something that the code leaves undone (a filter of names, rounding), the second text does it.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Guard:
    """In tirx_bench/`file`, `old` occurs once; with `new` in its place the test tests/`test` must fail."""

    fault: int
    file: str
    old: str
    new: str
    test: str
    gpu: bool = False


def nothing(fault: int, file: str, old: str, test: str, gpu: bool = False) -> Guard:
    """A guard that is one or more whole lines."""
    return Guard(fault, file, old, "", test, gpu)


def never(fault: int, file: str, condition: str, test: str, gpu: bool = False) -> Guard:
    """A guard that is the condition of an `if`."""
    return Guard(fault, file, f"if {condition}:", "if False:", test, gpu)


HOST, CACHE, CLOCK = "faults/test_host_faults.py", "faults/test_cache_faults.py", "faults/test_clock_faults.py"
TRACED, STATISTICS, WRONG = (f"faults/test_{group}_faults.py" for group in ("attribution", "statistics", "correctness"))
TRACE, STATS, SHAPE, GPU = "test_trace.py", "test_stats.py", "test_shape.py", "gpu/test_faults_gpu.py"

HELD = "            if loop.gate:\n                self.helpers.hold(turn)\n"
WARM_ENOUGH = "if took * 1e3 >= warmup_ms and (not moving or took >= cap_s):"
FLUSH_THEN_START = f"            self._before(loop)\n{HELD}            marks.stamp()\n            start.record()\n"
START_THEN_FLUSH = f"            start.record()\n            self._before(loop)\n{HELD}            marks.stamp()\n"
WRITES_THEN_FLUSH = "        loop.before()\n        if loop.flush is not None:\n            self.helpers.evict(loop.flush)\n"
FLUSH_THEN_WRITES = "        if loop.flush is not None:\n            self.helpers.evict(loop.flush)\n        loop.before()\n"
WAITED_FOR_FLUSH = "            self._before(loop)\n            self.synchronize()\n"
BELOW_FLOOR = "if (us := timing.median_us(name)) < FLOOR_SHARE * floor_us:"
SYNCS = "device.synchronizes(call, before)"
HIDDEN = "hidden > max(HIDDEN_US, HIDDEN_SHARE * interval)"
BY_LAUNCH = "_owner(launches[event.correlation], ranges)"
LAST_CALL = 'return next((ranges[at].name for at in reversed(range(begun)) if ranges[at].name.startswith(CALL)), "")'
NO_PERSISTING = "        _checked(driver.cuCtxSetLimit(driver.CUlimit.CU_LIMIT_PERSISTING_L2_CACHE_SIZE, 0))\n"
FORGET = "        self.helpers.forget_persisting()\n"
DISCARD = '            self._launch("discard_lines", 8 * self.sms, 512, other.data_ptr(), other.numel() // LINE_BYTES)\n'
BOTH_TIMERS = '[policy.timer, "event"] if policy.timer == "kernel" else [policy.timer]'
BACK_TO_BACK = '    parts += [*([f"{policy.calls}-calls"] if policy.calls > 1 else []), *(["gate"] if policy.gate else [])]\n'
NO_TIME = "not 0 < sample.us < math.inf"

THIEF = "test_f59_a_baseline_that_zeroes_an_input_is_left_out_and_the_kernel_gets_what_was_there"
IN_PLACE = "test_f66_an_in_place_kernel_finds_the_first_values_in_every_call"
TRIED = "test_f66_what_is_tried_before_the_timing_finds_the_first_values"

GUARDS = (
    # host, streams, graphs
    nothing(1, "device/timers.py", HELD,
            f"{HOST}::test_f01_a_slow_host_shows_in_an_empty_queue_and_hides_behind_a_flush_or_a_gate"),
    Guard(1, "timing/__init__.py", BOTH_TIMERS, "[policy.timer]",
          f"{HOST}::test_f01_the_event_interval_stands_beside_the_kernel_span"),
    never(2, "timing/judge.py", "extra > max(HOST_US, HOST_SHARE * device_us)",
          f"{HOST}::test_f02_a_slow_launcher_is_flagged_and_changes_no_verdict_on_kernel_time"),
    Guard(2, "compare.py", 'taken.get("no verdict by events") if by_events else None', "None",
          f"{HOST}::test_f02_by_events_a_slow_launcher_allows_no_verdict"),
    Guard(3, "device/trace.py", "span_us=(reach - work[0].start) / 1e3", "span_us=busy / 1e3",
          f"{TRACE}::test_f3_gaps_between_short_kernels_are_in_the_span_and_not_in_the_busy_time"),
    Guard(3, "timing/__init__.py", "r.clock_mhz, r.busy_us,", "r.clock_mhz, r.us,",
          f"{HOST}::test_f03_the_gaps_of_a_starved_operation_are_kept_apart_from_its_work"),
    Guard(3, "render/times.py", '["busy"] if _has_gaps(timing) else []', "[]",
          f"{HOST}::test_f03_the_page_shows_the_share_in_which_anything_ran"),
    Guard(4, "device/timers.py", "            start = time.perf_counter()\n            call()\n",
          "            call()\n            start = time.perf_counter()\n",
          f"{HOST}::test_f04_a_host_that_sleeps_before_it_launches_is_in_the_wall_time"),
    never(4, "model/policy.py", 'self.gate and self.timer != "event"', f"{HOST}::test_f04_no_gate_holds_a_wall_time"),
    never(5, "device/timers.py", "loop.gate and self.helpers.timed_out()",
          f"{HOST}::test_f05_a_call_that_waits_behind_a_gate_gives_no_number"),
    never(5, "timing/probe.py", SYNCS, f"{HOST}::test_f05_a_call_that_waits_is_found_before_it_is_timed"),
    Guard(5, "timing/__init__.py", '["nothing is timed behind a gate"] if policy.gate else []', "[]",
          f"{HOST}::test_f05_what_waits_is_timed_without_a_gate_and_refused_behind_one"),
    never(6, "timing/probe.py", HIDDEN, f"{HOST}::test_f06_events_on_another_stream_than_the_work_are_found_out"),
    Guard(6, "timing/__init__.py", 'forbidding = {"nothing is timed", ', "forbidding = {",
          f"{HOST}::test_f06_what_works_on_another_stream_is_not_timed"),
    never(7, "model/timing.py", NO_TIME, f"{HOST}::test_f07_a_time_that_is_none_does_not_construct"),
    Guard(7, "timing/judge.py", BELOW_FLOOR, "if (us := timing.median_us(name)) < 0:",
          f"{HOST}::test_f07_eight_nanoseconds_are_below_what_the_card_needs"),
    never(7, "device/timers.py", "not nodes", f"{HOST}::test_f07_a_graph_that_captured_nothing_is_refused"),
    Guard(8, "pipeline/trial.py",
          "self.device.poison(array for name, array in outputs.items() if name not in case.working)", "pass",
          f"{HOST}::test_f08_a_graph_that_left_a_launch_out_fails_on_its_stale_output"),
    Guard(9, "device/timers.py", "            start = time.perf_counter()\n            self.synchronize()\n            return",
          "            start = time.perf_counter()\n            return",
          f"{HOST}::test_f09_work_that_goes_on_after_the_stop_event_is_found"),
    Guard(10, "device/trace.py", LAST_CALL, 'return ""',
          f"{TRACE}::test_f10_a_launch_by_another_thread_counts_after_the_call_returned"),
    Guard(11, "compare.py", 'return "" if by_cycles == verdict else f"clock effect: by cycles it is {by_cycles}"', 'return ""',
          f"{HOST}::test_f11_a_clock_that_fell_in_idle_gaps_is_named_as_the_reason"),
    # caches
    nothing(12, "compare.py", '        "cache policy": timing.policy.cache,\n',
            f"{CACHE}::test_f12_a_time_with_a_warm_cache_is_not_compared_with_a_cold_one"),
    never(12, "model/policy.py", 'self.calls > 1 and self.cache == "cold"',
          f"{CACHE}::test_f12_calls_back_to_back_are_not_called_cold"),
    Guard(13, "pipeline/rotation.py", "EVICTED_L2S = 2", "EVICTED_L2S = 1",
          f"{CACHE}::test_f13_between_two_uses_of_a_copy_twice_the_l2_is_touched"),
    Guard(13, "pipeline/trial.py", "policy = replace(policy, calls=whole_turns(policy.calls, count))", "pass",
          f"{CACHE}::test_f13_a_graph_of_ten_calls_comes_by_every_copy"),
    Guard(13, "timing/probe.py", "if after >= COLD_FACTOR * before:", "if True:",
          f"{CACHE}::test_f13_an_eviction_that_does_not_evict_allows_no_verdict"),
    never(14, "pipeline/rotation.py", "bytes_of_one <= 0", f"{CACHE}::test_f14_rotation_with_nothing_to_rotate_is_refused"),
    Guard(15, "device/timers.py", WRITES_THEN_FLUSH, FLUSH_THEN_WRITES,
          f"{CACHE}::test_f15_what_is_written_before_a_call_is_evicted_too"),
    nothing(16, "device/timers.py", FORGET, f"{CACHE}::test_f16_lines_that_persist_do_not_outlive_the_flush"),
    nothing(16, "device/helpers.py", NO_PERSISTING,
            f"{CACHE}::test_f16_persisting_is_turned_off_before_its_lines_are_reset"),
    Guard(17, "timing/judge.py", BELOW_FLOOR, "if (us := timing.median_us(name)) < 0:",
          f"{CACHE}::test_f17_a_fill_that_l2_absorbs_is_called_impossible_and_gets_no_verdict"),
    Guard(17, "render/times.py", "< 0.98 * record.measured.floor_us(record.work)", "< 0",
          f"{CACHE}::test_f17_more_than_the_measured_peak_is_said_on_the_page"),
    nothing(18, "device/helpers.py", DISCARD, f"{CACHE}::test_f18_no_flush_leaves_dirty_lines_to_the_next_kernel"),
    Guard(19, "device/trace.py", "if late := [event for event in before if event.end > call[0].start]:", "if late := []:",
          f"{TRACE}::test_f19_a_flush_that_runs_into_the_timed_window_is_refused"),
    Guard(19, "device/timers.py", FLUSH_THEN_START, START_THEN_FLUSH,
          f"{CACHE}::test_f19_a_flush_of_twenty_times_the_call_is_in_no_interval"),
    Guard(20, "device/timers.py", WAITED_FOR_FLUSH, "            self._before(loop)\n",
          f"{CACHE}::test_f20_the_host_waits_for_the_flush_before_its_clock_starts"),
    Guard(21, "device/timers.py", FLUSH_THEN_START, START_THEN_FLUSH,
          f"{CACHE}::test_f21_a_hook_that_writes_and_flushes_is_outside_the_interval"),
    Guard(21, "timing/__init__.py", "Loop(before, policy.flush if", "Loop(lambda: None, policy.flush if",
          f"{CACHE}::test_f21_each_call_has_its_own_flush_as_the_last_thing_before_it"),
    Guard(22, "device/trace.py", "for event in _events(trace, DEVICE_WORK):",
          'for event in [e for e in _events(trace, DEVICE_WORK) if "FillFunctor" not in e.name]:',
          f"{TRACE}::test_f22_a_users_own_fill_counts_although_the_flush_has_its_name"),
    Guard(67, "device/timers.py", FLUSH_THEN_START, START_THEN_FLUSH,
          f"{CACHE}::test_f67_a_flush_that_varies_by_more_than_the_kernel_takes_moves_no_time"),
    # clocks, warm-up, neighbours
    Guard(23, "timing/settle.py", WARM_ENOUGH, "if took * 1e3 >= warmup_ms:",
          f"{CLOCK}::test_f23_the_warm_up_lasts_until_a_ramp_is_over"),
    Guard(23, "timing/__init__.py", "while self.device.seconds() < end:", "for _ in range(1):",
          f"{CLOCK}::test_f23_the_warm_up_lasts_until_a_ramp_is_over"),
    Guard(23, "timing/__init__.py", '[Status("NOT_SETTLED", self.settled.moving)] if self.settled.moving else []', "[]",
          f"{CLOCK}::test_f23_a_warm_up_that_is_cut_short_is_said"),
    never(23, "timing/judge.py", "moved.drifts", f"{CLOCK}::test_f23_a_ramp_in_the_rounds_is_a_drift_and_gives_no_absolute_time"),
    Guard(24, "timing/__init__.py", "replace(self.loop, gate=False)", "Loop(self.loop.before)",
          f"{CLOCK}::test_f24_the_warm_up_is_the_timed_loop_with_its_flush_and_lasts_as_long_as_it_says"),
    Guard(24, "timing/__init__.py", "tuple(self.untraced), self.settled.warmed_ms,", "tuple(self.untraced), 0.0,",
          f"{CLOCK}::test_f24_the_time_that_the_warm_up_took_is_recorded"),
    Guard(25, "timing/judge.py", "> CLOCK_SPREAD:", "> 1:",
          f"{CLOCK}::test_f25_a_clock_that_falls_to_80_percent_is_throttled_although_no_reason_is_given"),
    never(25, "timing/judge.py", "reasons", f"{CLOCK}::test_f25_a_card_that_says_why_it_is_slow_gives_no_absolute_time"),
    nothing(26, "compare.py", '        "input fill": record.verification and record.verification.fill,\n',
            f"{CLOCK}::test_f26_times_from_inputs_of_another_distribution_are_not_compared"),
    Guard(26, "verify.py", "if len(rng.drawn) < len(inputs):", "if False:",
          f"{CLOCK}::test_f26_inputs_that_were_not_drawn_are_told_apart_by_what_they_hold"),
    never(27, "model/timing.py", "not self.samples",
          f"{CLOCK}::test_f27_a_timing_without_a_valid_sample_is_an_error_of_its_own_kind"),
    Guard(27, "render/times.py", '"-" if math.isnan(spread) else f"{spread:.2%}"', 'f"{spread:.2%}"',
          f"{CLOCK}::test_f27_no_table_says_nan"),
    Guard(27, "compare.py", "Interval(times[1] / times[0], 0.0, math.inf)", "Interval(math.nan, 0.0, math.inf)",
          f"{CLOCK}::test_f27_a_ratio_of_one_round_is_a_number_without_an_interval"),
    Guard(28, "timing/order.py", "for i in balanced_order(len(names), number)]", "for i in range(len(names))]",
          f"{CLOCK}::test_f28_equal_code_under_a_drift_is_not_called_different"),
    Guard(28, "timing/order.py", "number * count + turn", "turn",
          f"{CLOCK}::test_f28_an_odd_number_of_turns_in_each_round_favours_nobody"),
    Guard(28, "timing/__init__.py", "settle(window, self.policy.warmup_ms, self.policy.settle_s, self.device.seconds)",
          'Settled(self.policy.warmup_ms, "")', f"{CLOCK}::test_f28_a_warm_up_that_does_nothing_would_be_seen"),
    Guard(29, "timing/settle.py", WARM_ENOUGH, "if True:",
          f"{CLOCK}::test_f29_a_mode_in_between_does_not_change_what_comes_after"),
    Guard(30, "timing/__init__.py", "(self.policy.cooldown_s)\n            self._warm_up()\n", "(self.policy.cooldown_s)\n",
          f"{CLOCK}::test_f30_a_first_call_after_idling_is_in_no_sample"),
    Guard(31, "timing/probe.py", "if others := device.others():", "if others := []:",
          f"{CLOCK}::test_f31_another_user_of_the_card_allows_no_verdict"),
    never(31, "device/nvml.py", "os.getpid() in seen or len(seen) == 1",
          f"{CLOCK}::test_f31_the_driver_lists_processes_and_this_one_is_none_of_the_others"),
    Guard(32, "timing/__init__.py", "r.us, at, r.clock_mhz,", "r.us, at, None,",
          f"{CLOCK}::test_f32_every_sample_has_the_clock_that_it_ran_at"),
    Guard(32, "device/timers.py", "round((last - first) / (end - start) * 1e3, 1)", "1980.0",
          f"{CLOCK}::test_f32_the_clock_is_counted_by_the_card_around_each_call"),
    Guard(32, "device/timers.py", " if end > start else None", "",
          f"{CLOCK}::test_f32_an_interval_within_one_step_of_the_cards_timer_has_no_clock_rather_than_an_absurd_one"),
    # profiler attribution
    Guard(33, "model/timing.py", "statistics.median(traced) - statistics.median(untraced) if traced and untraced else None",
          "None",
          f"{TRACED}::test_f33_what_tracing_adds_is_reported_and_is_not_in_the_kernel_time"),
    never(33, "timing/__init__.py", "sorted(before[0]) != sorted(kernels[0])",
          f"{TRACED}::test_f33_helper_kernels_that_come_with_later_blocks_are_refused"),
    never(34, "device/trace.py", "own != counts[-1]", f"{TRACE}::test_f34_a_session_that_lost_its_leading_kernels_is_refused"),
    Guard(35, "device/trace.py", "if (found := Counter(call.kernels)) != first:", "if (found := Counter(call.kernels)) is None:",
          f"{TRACE}::test_f35_kernels_that_are_no_multiple_of_the_calls_are_refused_with_their_counts"),
    Guard(36, "device/timers.py",
          'raise MissingError(f"the proton timer needs triton: {error}", "use --timer kernel, event or wall") from error',
          "return self._event(calls, loop)", f"{TRACED}::test_f36_the_error_names_timers_that_work"),
    Guard(37, "device/timers.py", "if lost := sum(not sum(us for us, _ in leaves) for leaves in found):", "if lost := 0:",
          f"{TRACED}::test_f37_a_lost_scope_is_an_error_and_not_one_sample_less"),
    Guard(37, "device/trace.py", "busy += max(0, event.end - max(event.start, reach))", "busy += event.end - event.start",
          f"{TRACE}::test_f37_kernels_that_overlap_count_once_in_the_busy_time_and_twice_in_the_sum"),
    Guard(38, "device/trace.py", BY_LAUNCH, "_owner(event, ranges)",
          f"{TRACED}::test_f38_the_kernels_of_an_older_graph_belong_to_the_replay_that_launched_them"),
    # statistics, reports, arguments
    Guard(39, "render/histogram.py", "(min(values), middle.centre, max(values))", "(max(values), middle.centre, max(values))",
          f"{STATISTICS}::test_f39_least_median_and_most_are_printed_in_that_order"),
    Guard(39, "stats.py", "Range(centre, ordered[rank - 1], ordered[-rank])", "Range(centre, ordered[-rank], ordered[rank - 1])",
          f"{STATS}::test_f39_min_is_not_above_median_is_not_above_max"),
    Guard(40, "stats.py", "max(1, math.ceil(tick_us / (0.1 * target * time_us) * (1 - 1e-9)))", "1",
          f"{STATS}::test_f40_a_timer_of_half_a_us_takes_125_calls_of_8_us_for_half_a_percent"),
    Guard(40, "timing/judge.py", "timing.rounds >= 2 * MIN_UNITS and ", "",
          f"{STATISTICS}::test_f40_equal_ticks_are_not_precise"),
    never(40, "timing/judge.py", "wanted > timing.policy.calls", f"{STATISTICS}::test_f40_equal_ticks_are_not_precise"),
    Guard(41, "model/timing.py", " if len(medians) > 1 else math.nan", "", f"{STATISTICS}::test_f41_one_round_has_no_spread"),
    Guard(41, "stats.py", "if len(logs) < 2:\n        return 1.0", "if False:\n        return 1.0",
          f"{STATS}::test_f41_one_run_gives_no_spread"),
    Guard(42, "shape.py", "    ordered = sorted(values)\n    n = len(ordered)\n",
          "    values.sort()\n    ordered = values\n    n = len(ordered)\n",
          f"{SHAPE}::test_f42_a_20_percent_mode_is_reported_and_nothing_deleted"),
    Guard(43, "timing/__init__.py", "max(statistics.median(r.us for r in readings), 0.1)",
          "statistics.median(r.us for r in readings)",
          f"{STATISTICS}::test_f43_an_estimate_of_zero_is_below_what_the_timer_resolves"),
    Guard(44, "compare.py", "MARGIN = 0.005", "MARGIN = 0.0",
          f"{STATISTICS}::test_f44_equal_code_with_hardly_any_noise_is_not_called_different"),
    Guard(44, "compare.py", "max(MARGIN, floor or 0.0)", "MARGIN",
          f"{STATISTICS}::test_f44_what_the_card_showed_between_equal_code_widens_the_margin"),
    nothing(44, "store.py", BACK_TO_BACK, f"{STATISTICS}::test_f44_what_equal_code_showed_otherwise_timed_is_no_floor"),
    Guard(44, "store.py", ', *([policy.flush] if policy.cache == "cold" else [])]', "]",
          f"{STATISTICS}::test_f44_what_equal_code_showed_otherwise_timed_is_no_floor"),
    Guard(45, "compare.py", "if c.p is not None}", "if c.p}", f"{STATISTICS}::test_f45_a_p_value_of_zero_stays_in_the_table"),
    Guard(45, "render/times.py", '"-" if c.p is None else', '"-" if not c.p else',
          f"{STATISTICS}::test_f45_a_p_value_of_zero_stays_in_the_table"),
    Guard(46, "timing/__init__.py", "took_s >= self.policy.max_time_s or ", "",
          f"{STATISTICS}::test_f46_a_kernel_that_never_becomes_precise_ends_at_its_time"),
    Guard(46, "timing/__init__.py", "range(self.policy.max_rounds)", "range(9 * self.policy.max_rounds)",
          f"{STATISTICS}::test_f46_a_kernel_that_never_becomes_precise_ends_at_its_rounds_and_says_so"),
    Guard(47, "device/timers.py", "self.elapsed_ms(*pair) * 1e3 / loop.calls", "self.elapsed_ms(*pair) * 1e3",
          f"{STATISTICS}::test_f47_many_calls_in_one_interval_are_divided_by_their_number_once"),
    Guard(48, "stats.py", "or rank < 1:\n        return Range(centre, 0.0, math.inf)",
          "or rank < 1:\n        return Range(centre, centre, centre)",
          f"{STATISTICS}::test_f48_a_few_samples_of_many_calls_have_no_interval"),
    never(48, "render/times.py", "policy.calls > 1", f"{STATISTICS}::test_f48_how_many_calls_a_sample_holds_is_said"),
    never(49, "timing/judge.py", "total_s > timing.session_s * 1.01 > 0",
          f"{STATISTICS}::test_f49_samples_that_add_up_to_more_than_the_session_are_impossible"),
    Guard(50, "stats.py", "Range(centre, ordered[rank - 1], ordered[-rank])",
          "Range(centre, *(centre + side * 2 * statistics.stdev(values) / math.sqrt(n) for side in (-1, 1)))",
          f"{STATS}::test_f50_uncertainty_is_of_the_same_estimator"),
    Guard(51, "render/times.py", "for c in found.values() if c.sound]", "for c in found.values()]",
          f"{STATISTICS}::test_f51_a_workload_with_a_forbidding_status_is_not_in_the_geometric_mean"),
    Guard(51, "compare.py", "sound=bool(units) and not why", "sound=not why",
          f"{STATISTICS}::test_f51_a_workload_without_an_interval_is_not_in_the_geometric_mean"),
    nothing(52, "compare.py", '        "GPU UUID": record.environment.get("gpu_uuid"),\n',
            f"{STATISTICS}::test_f52_what_changes_from_day_to_day_does_not_part_the_records_of_one_card"),
    Guard(53, "serial.py", "bool | int | float | str):\n        return value",
          "bool | int | float | str):\n        return round(value, 3) if isinstance(value, float) else value",
          f"{STATISTICS}::test_f53_half_a_percent_survives_a_record_and_what_is_missing_is_no_number"),
    never(53, "model/timing.py", NO_TIME, f"{STATISTICS}::test_f53_a_default_in_place_of_a_time_is_refused"),
    Guard(54, "model/policy.py", "    warmup_ms: float = 200.0\n", "    warmup_ms: float = 200.0\n    warmup: float = 25\n",
          f"{STATISTICS}::test_f54_every_number_has_its_unit_in_its_name_or_has_none"),
    Guard(54, "cli/options.py", '"--max-time", type=float, metavar="S"', '"--max-time", type=float, metavar="N"',
          f"{STATISTICS}::test_f54_options_that_take_a_time_say_its_unit_and_no_other_name_is_guessed"),
    Guard(55, "cli/commands.py", '"slower": 1', '"slower": 0', f"{STATISTICS}::test_f55_a_planted_regression_fails_the_gate"),
    never(55, "compare.py", "interval.low > 1 + margin",
          f"{STATISTICS}::test_f55_a_planted_regression_of_two_percent_is_found_between_noisy_samples"),
    # correctness
    Guard(56, "verify.py", "elif bool((size > 0).any()) and bool((size <= bound).all()):", "elif False:",
          f"{WRONG}::test_f56_a_tolerance_that_zeros_pass_proves_nothing"),
    never(57, "verify.py", "not bool((size < math.inf).all())",
          f"{WRONG}::test_f57_a_reference_that_is_not_finite_makes_the_case_invalid"),
    Guard(58, "verify.py", "wrong = ~(excess <= 0)", "wrong = excess > 0",
          f"{WRONG}::test_f58_a_kernel_that_does_nothing_leaves_nan_and_nan_is_no_wildcard"),
    Guard(59, "verify.py", "if not device.same_bits(case.inputs[name], array)]", "if False]",
          f"{WRONG}::test_f59_a_kernel_that_zeroes_its_input_is_found_although_its_output_is_right"),
    Guard(59, "verify.py", "return device.copy(wide) if wide is array else wide", "return wide",
          f"{WRONG}::test_f59_no_output_lies_in_the_memory_of_the_reference"),
    never(59, "pipeline/trial.py", "changed", f"{WRONG}::{THIEF}"),
    Guard(59, "verify.py", "case.inputs[name][...] = before[name]", "pass", f"{WRONG}::{THIEF}"),
    Guard(60, "pipeline/trial.py", "refill(case, self.device, UNSEEN + case.seed + number)", "pass",
          f"{WRONG}::test_f60_a_kernel_that_remembers_its_answer_is_wrong_on_new_values"),
    Guard(60, "pipeline/trial.py", "case.twin(device, case.seed + 1 + n)", "case.twin(device, case.seed)",
          f"{WRONG}::test_f60_the_copies_that_take_turns_hold_other_values"),
    Guard(61, "model/verification.py", "all(o.passed for o in self.outputs)", "self.outputs[-1].passed",
          f"{WRONG}::test_f61_a_wrong_output_fails_wherever_it_is"),
    Guard(61, "pipeline/trial.py", "return next((check for check in checks if not check.passed), checks[0])", "return checks[-1]",
          f"{WRONG}::test_f61_a_wrong_copy_fails_wherever_it_comes"),
    Guard(62, "verify.py", "{name: device.poisoned(shape, dtype) for", "{name: device.rng(0).uniform(shape, dtype, 0, 0) for",
          f"{WRONG}::test_f62_elements_that_were_not_written_do_not_pass_by_luck"),
    Guard(63, "verify.py", "how = device.exact_reference()", 'how = ""', f"{WRONG}::test_f63_tf32_does_not_pass_for_fp32"),
    nothing(63, "device/cuda.py", "        self.torch.backends.cuda.matmul.allow_tf32 = False\n",
            f"{WRONG}::test_f63_how_the_reference_was_computed_is_recorded_and_tf32_is_off"),
    Guard(64, "verify.py", "    launch(case.buffers)\n    device.synchronize()\n", "    launch(case.buffers)\n",
          f"{WRONG}::test_f64_a_launch_that_failed_is_an_error_although_the_output_looks_right"),
    Guard(64, "device/helpers.py", 'raise FailedError(f"the CUDA driver answers error {code} to a launch")', "pass",
          f"{WRONG}::test_f64_what_the_driver_answers_to_a_launch_is_looked_at"),
    Guard(64, "pipeline/steps.py", 'if f.severity == "error")', "if False)",
          f"{WRONG}::test_f64_shared_memory_over_the_limit_is_never_launched"),
    Guard(65, "device/timers.py", "self.elapsed_ms(*pair) * 1e3 / loop.calls", "pair[0].elapsed_time(pair[1]) * 1e3 / loop.calls",
          f"{WRONG}::test_f65_a_clock_that_the_kernels_file_replaced_is_not_asked"),
    Guard(65, "verify.py", " or device.dtype_of(actual) != dtype", "", f"{WRONG}::test_f65_an_output_of_another_type_fails"),
    Guard(66, "pipeline/trial.py", "resets[self.rotation.next]()", "pass", f"{WRONG}::{IN_PLACE}"),
    never(66, "pipeline/trial.py", "cases is not self.cases", f"{WRONG}::{IN_PLACE}"),
    Guard(66, "pipeline/trial.py", "self.resets.append([_reset(case, own)", "_ = ([_reset(case, own)", f"{WRONG}::{IN_PLACE}"),
    Guard(66, "pipeline/trial.py", "            for reset in resets:\n                reset()\n", "            pass\n",
          f"{WRONG}::{IN_PLACE}"),
    nothing(66, "pipeline/trial.py", "        self.before()  # a capture calls once before it\n",
            f"{WRONG}::test_f66_a_capture_finds_the_first_values"),
    Guard(66, "timing/probe.py", "    before()\n    call()", "    call()", f"{WRONG}::{TRIED}"),
    Guard(66, "timing/probe.py", "Loop(before)", "Loop(lambda: None)", f"{WRONG}::{TRIED}"),
    nothing(66, "device/timers.py", "            before()\n", f"{WRONG}::{TRIED}"),
    Guard(66, "device/timers.py", "        self.helpers.close()\n        before()\n", "        self.helpers.close()\n",
          f"{WRONG}::{TRIED}"),
    never(66, "pipeline/trial.py", "case.kernel.inplace and policy.calls > 1",
          f"{WRONG}::test_f66_in_place_calls_back_to_back_are_refused"),
    # what only a card can show
    nothing(1, "device/timers.py", HELD, f"{GPU}::test_f01_an_empty_queue_shows_the_host_and_a_full_one_hides_it", gpu=True),
    Guard(2, "timing/__init__.py", BOTH_TIMERS, "[policy.timer]",
          f"{GPU}::test_f02_a_slow_host_is_flagged_and_does_not_change_the_kernel_time", gpu=True),
    never(5, "timing/probe.py", SYNCS,
          f"{GPU}::test_f05_a_call_that_synchronises_is_said_to_and_hangs_nothing", gpu=True),
    never(7, "device/timers.py", "not nodes", f"{GPU}::test_f07_an_empty_graph_is_refused", gpu=True),
    never(9, "timing/probe.py", HIDDEN, f"{GPU}::test_f06_f09_work_on_a_side_stream_is_refused", gpu=True),
    Guard(10, "device/trace.py", LAST_CALL, 'return ""',
          f"{GPU}::test_f10_a_kernel_that_a_helper_thread_launches_is_counted", gpu=True),
    Guard(12, "device/timers.py", WRITES_THEN_FLUSH, "        loop.before()\n",
          f"{GPU}::test_f12_warm_and_cold_differ_for_what_fits_in_l2", gpu=True),
    Guard(15, "device/timers.py", WRITES_THEN_FLUSH, FLUSH_THEN_WRITES,
          f"{GPU}::test_f15_what_is_written_just_before_is_evicted_too", gpu=True),
    nothing(16, "device/timers.py", FORGET, f"{GPU}::test_f16_persisting_lines_do_not_survive", gpu=True),
    nothing(18, "device/helpers.py", DISCARD,
            f"{GPU}::test_f18_a_flush_that_leaves_dirty_lines_makes_the_next_kernel_pay", gpu=True),
    Guard(20, "device/timers.py", WAITED_FOR_FLUSH, "            self._before(loop)\n",
          f"{GPU}::test_f20_the_wall_timer_does_not_time_the_flush", gpu=True),
    Guard(31, "timing/probe.py", "if others := device.others():", "if others := []:",
          f"{GPU}::test_f31_another_process_on_the_card_is_noticed", gpu=True),
    Guard(38, "device/trace.py", BY_LAUNCH, "_owner(event, ranges)",
          f"{GPU}::test_f38_a_graph_that_is_older_than_the_session_is_attributed", gpu=True),
)  # fmt: skip
