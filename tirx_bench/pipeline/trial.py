"""The implementations of one problem on the device: what is timed, and the check that they were right before and after."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from functools import partial

from tirx_bench.device import Call
from tirx_bench.device.cuda import CudaDevice
from tirx_bench.model import Baseline, FailedError, Operation, TimingPolicy, UsageError, Verification, call
from tirx_bench.pipeline.loading import Bind
from tirx_bench.pipeline.rotation import Rotation, copies_needed, whole_turns
from tirx_bench.verify import Buffers, Case, baseline_outputs, compare, refill, restore_inputs

UNSEEN = 1000  # added to a seed gives values that nothing was timed with; twice that, values that nothing was checked with


@dataclass
class Implementation:
    """One call per copy of the problem, the outputs that it writes there, and what it is made with."""

    name: str
    calls: list[Call]
    outputs: list[Buffers]
    library: str
    workspace_bytes: int | None
    tuning: str
    cases: list[Case]
    prepared: tuple[str, ...] = ()
    timed: Call = field(default=lambda: None)
    ran: set[int] = field(default_factory=set)  # the copies that it ran on since the outputs were poisoned


class Trial:
    """`cases` are the copies of the problem; all but the first exist only to be rotated through."""

    def __init__(self, case: Case, policy: TimingPolicy, device: CudaDevice):
        self.device = device
        self.cases = [case]
        if policy.cache == "rotate":
            count = copies_needed(device.bytes_of(case.buffers.values()), device.l2_bytes)
            self.cases += [case.twin(device, case.seed + 1 + n) for n in range(count - 1)]
            if policy.timer == "graph":
                policy = replace(policy, calls=whole_turns(policy.calls, count))
        if case.kernel.inplace and policy.calls > 1:
            raise UsageError("in-place arguments cannot be restored between calls back to back", "--calls 1 --cache cold")
        self.policy = policy
        self.rotation = Rotation(len(self.cases))
        # By implementation with memory of its own and by copy: give the in-place arguments their first values again.
        self.resets: list[list[Call]] = [[case.reset for case in self.cases]]
        self.implementations: list[Implementation] = []
        self.left_out: list[str] = []

    def before(self) -> None:
        for resets in self.resets:
            resets[self.rotation.next]()

    def add_kernel(self, name: str, bind: Bind, cases: list[Case], library: str) -> None:
        if cases is not self.cases:
            self.resets.append([case.reset for case in cases])
        calls = [bind(case.buffers) for case in cases]
        outputs = [case.outputs for case in cases]
        self._add(Implementation(name, calls, outputs, library, None, "the tunables of the record", cases))

    def add_baseline(self, name: str, baseline: Baseline) -> None:
        """Add it if its outputs match the reference on every copy and it leaves the inputs alone; else say why not.

        Raises `UsageError` when it names an input that there is not.
        """
        if unknown := [name for name in baseline.prepared if name not in self.cases[0].inputs]:
            raise UsageError(f"baseline {name} prepares {unknown[0]}, which is no input of {self.cases[0].kernel.name}")
        outputs = [baseline_outputs(case, self.device) for case in self.cases]
        inputs = [{n: self.device.copy(array) for n, array in case.inputs.items()} for case in self.cases]
        try:
            calls, found, workspace_bytes = self._tried(baseline, outputs)
        except Exception as error:
            reason = (str(error).splitlines() or [type(error).__name__])[0][:200]
            self.left_out.append(f"baseline {name}: it raised {type(error).__name__}: {reason}")
            self.device.synchronize()  # raises again if it broke the context, and then nothing can be timed
            for case, before in zip(self.cases, inputs, strict=True):
                restore_inputs(case, before, self.device)  # it may have changed one before it raised
            return
        changed = [n for case, before in zip(self.cases, inputs, strict=True) for n in restore_inputs(case, before, self.device)]
        if changed:
            self.left_out.append(f"baseline {name}: it changes the input {changed[0]}, which the kernel gets too")
        elif not self._right(found):
            self.left_out.append(f"baseline {name}: its output does not match the reference")
        else:
            self.resets.append([partial(case.reset, own) for case, own in zip(self.cases, outputs, strict=True)])
            libraries = self.device.libraries()
            self._add(
                Implementation(name, calls, outputs, libraries, workspace_bytes, baseline.tuning, self.cases, baseline.prepared)
            )

    def _tried(self, baseline: Baseline, outputs: list[Buffers]) -> tuple[list[Call], list[Buffers], int]:
        """The prepared calls, what a second one of each writes, and the memory that the first took."""
        with self.device.workspace() as workspace:
            calls = [self._prepared(baseline, case, out) for case, out in zip(self.cases, outputs, strict=True)]
            self.device.synchronize()
        found = [self._again_in_order(*each) for each in zip(calls, self.cases, outputs, strict=True)]
        self.device.synchronize()
        return calls, found, workspace.bytes

    def _prepared(self, baseline: Baseline, case: Case, outputs: Buffers) -> Call:
        run: Call = call(baseline.prepare, {**case.params, **case.inputs, **outputs})
        run()
        return run

    def _again_in_order(self, run: Call, case: Case, outputs: Buffers) -> Buffers:
        """What the call, on poisoned outputs, has written there for who reads on the same stream without waiting any longer."""
        case.poison(outputs, self.device)
        case.reset(outputs)
        run()
        return {name: self.device.copy(array) for name, array in outputs.items()}

    def _add(self, implementation: Implementation) -> None:
        rotated = self.rotation.over(implementation.calls, implementation.ran)
        captured = self.policy.timer == "graph"
        self.before()  # a capture calls once before it
        implementation.timed = self.device.capture(rotated, self.policy.calls) if captured else rotated
        self.implementations.append(implementation)

    @property
    def calls(self) -> dict[str, Call]:
        return {i.name: i.timed for i in self.implementations}

    # -------------------------------------------------------------------------------------- afterwards

    def poison(self) -> None:
        """Outputs as if nobody had written them, so that what the timed calls leave there is theirs."""
        for implementation in self.implementations:
            for case, outputs in zip(implementation.cases, implementation.outputs, strict=True):
                case.poison(outputs, self.device)
            if self.policy.timer != "graph":  # which always runs on those of its capture
                implementation.ran.clear()

    def check(self, implementation: Implementation) -> Verification:
        """The timed call again, on poisoned outputs and on values that it has not seen, but for those it may prepare."""
        for number, case in enumerate(implementation.cases):
            if implementation.prepared:
                refill(case, self.device, case.seed)  # an earlier check may have left others
            refill(case, self.device, UNSEEN + case.seed + number, implementation.prepared)
        found = self._again(implementation, turns=1)
        if found.passed:
            found = self._again(implementation, turns=3)  # some do less where calls come fast, as in timing
        return replace(found, seed=UNSEEN + implementation.cases[0].seed)

    def _again(self, implementation: Implementation, turns: int) -> Verification:
        for _ in range(turns):
            self._turn(implementation)
        self.device.synchronize()
        return self.left(implementation)

    def _turn(self, implementation: Implementation) -> None:
        """The timed call on every copy, on poisoned outputs and first values."""
        for resets in self.resets:
            for reset in resets:
                reset()
        self.poison()
        for _ in range(1 if self.policy.timer == "graph" else len(implementation.cases)):
            implementation.timed()

    def left(self, implementation: Implementation) -> Verification:
        """What the last calls left in the outputs; short of a whole turn there are copies that they did not come by."""
        pairs = [(implementation.cases[n], implementation.outputs[n]) for n in sorted(implementation.ran)]
        checks = [compare(case, outputs, self.device) for case, outputs in pairs]
        return next((check for check in checks if not check.passed), checks[0])

    def other_work(self, implementation: Implementation) -> str:
        """How a call on values that it has not seen differs from one on the same values again; empty if it does not.

        Who looks results up by the values of the inputs is right on every value, and computes once.
        """
        refill(implementation.cases[0], self.device, 2 * UNSEEN + implementation.cases[0].seed, implementation.prepared)

        def before() -> None:
            for resets in self.resets:
                resets[0]()

        try:
            self.device.launched(implementation.calls[0], before)
        except FailedError as error:
            return error.message
        return ""

    def _right(self, outputs: list[Buffers]) -> bool:
        return all(compare(case, out, self.device).passed for case, out in zip(self.cases, outputs, strict=True))

    def operations(self, timed: Collection[str], seen: Mapping[str, tuple[tuple[str, ...], int]]) -> tuple[Operation, ...]:
        """What each of `timed` launches, as the timer saw it, or else as a trace of three more calls shows."""
        found = []
        for i in (i for i in self.implementations if i.name in timed):  # of hidden work a trace is refused
            kernels, streams = seen.get(i.name) or self.device.launched(i.timed, self.before)
            found.append(Operation(i.name, kernels, streams, i.library, i.workspace_bytes, i.tuning))
        return tuple(found)
