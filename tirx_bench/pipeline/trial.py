"""The implementations of one problem on the device: what is timed, and the check that they were right before and after."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace

from tirx_bench.device import Call
from tirx_bench.device.cuda import CudaDevice
from tirx_bench.model import Baseline, Operation, TimingPolicy, UsageError, Verification, call
from tirx_bench.pipeline.loading import Bind
from tirx_bench.pipeline.rotation import Rotation, copies_needed, whole_turns
from tirx_bench.verify import Buffers, Case, baseline_outputs, compare, refill, restore_inputs

UNSEEN = 1000  # added to a seed gives values that nothing was timed with


@dataclass
class Implementation:
    """One call per copy of the problem, the outputs that it writes there, and what it is made with."""

    name: str
    calls: list[Call]
    outputs: list[Buffers]
    library: str
    workspace_bytes: int | None
    tuning: str
    timed: Call = field(default=lambda: None)


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
        self._add(Implementation(name, calls, [case.outputs for case in cases], library, None, "the tunables of the record"))

    def add_baseline(self, name: str, baseline: Baseline) -> None:
        """Add it if its outputs match the reference on every copy and it leaves the inputs alone; else say why not."""
        outputs = [baseline_outputs(case, self.device) for case in self.cases]
        inputs = [{n: self.device.copy(array) for n, array in case.inputs.items()} for case in self.cases]
        with self.device.workspace() as workspace:
            try:
                calls = [self._prepared(baseline, c, out) for c, out in zip(self.cases, outputs, strict=True)]
            except Exception as error:
                reason = (str(error).splitlines() or [type(error).__name__])[0][:200]
                self.left_out.append(f"baseline {name}: it raised {type(error).__name__}: {reason}")
                for case, before in zip(self.cases, inputs, strict=True):
                    restore_inputs(case, before, self.device)  # it may have changed one before it raised
                return
            self.device.synchronize()
        changed = [n for case, before in zip(self.cases, inputs, strict=True) for n in restore_inputs(case, before, self.device)]
        if changed:
            self.left_out.append(f"baseline {name}: it changes the input {changed[0]}, which the kernel gets too")
        elif not self._right(outputs):
            self.left_out.append(f"baseline {name}: its output does not match the reference")
        else:
            self.resets.append([_reset(case, own) for case, own in zip(self.cases, outputs, strict=True)])
            self._add(Implementation(name, calls, outputs, self.device.libraries(), workspace.bytes, baseline.tuning))

    def _prepared(self, baseline: Baseline, case: Case, outputs: Buffers) -> Call:
        run: Call = call(baseline.prepare, {**case.params, **case.inputs, **outputs})
        run()
        return run

    def _add(self, implementation: Implementation) -> None:
        rotated = self.rotation.over(implementation.calls)
        captured = self.policy.timer == "graph"
        self.before()  # a capture calls once before it
        implementation.timed = self.device.capture(rotated, self.policy.calls) if captured else rotated
        self.implementations.append(implementation)

    @property
    def calls(self) -> dict[str, Call]:
        return {i.name: i.timed for i in self.implementations}

    # -------------------------------------------------------------------------------------- afterwards

    def check_kernel(self, implementation: Implementation, cases: list[Case]) -> Verification:
        """The timed call once more, on poisoned outputs and on values that it has not seen."""
        for number, case in enumerate(cases):
            refill(case, self.device, UNSEEN + case.seed + number)
        return replace(self._again(implementation, cases), seed=UNSEEN + cases[0].seed)

    def check_baseline(self, implementation: Implementation) -> Verification:
        """The same with the values that it was prepared for, since it may have prepared some of them."""
        return self._again(implementation, self.cases)

    def _again(self, implementation: Implementation, cases: list[Case]) -> Verification:
        for resets in self.resets:
            for reset in resets:
                reset()
        for case, outputs in zip(cases, implementation.outputs, strict=True):
            self.device.poison(array for name, array in outputs.items() if name not in case.working)
        for _ in range(1 if self.policy.timer == "graph" else len(cases)):
            implementation.timed()
        self.device.synchronize()
        checks = [compare(case, outputs, self.device) for case, outputs in zip(cases, implementation.outputs, strict=True)]
        return next((check for check in checks if not check.passed), checks[0])

    def _right(self, outputs: list[Buffers]) -> bool:
        return all(compare(case, out, self.device).passed for case, out in zip(self.cases, outputs, strict=True))

    def operations(self, timed: Collection[str], seen: Mapping[str, tuple[tuple[str, ...], int]]) -> tuple[Operation, ...]:
        """What each of `timed` launches, as the timer saw it, or else as a trace of three more calls shows."""
        found = []
        for i in (i for i in self.implementations if i.name in timed):  # of hidden work a trace is refused
            kernels, streams = seen.get(i.name) or self.device.launched(i.timed, self.before)
            found.append(Operation(i.name, kernels, streams, i.library, i.workspace_bytes, i.tuning))
        return tuple(found)


def _reset(case: Case, own: Buffers) -> Call:
    def reset() -> None:
        for name in case.kernel.inplace:
            own[name][...] = case.inputs[name]

    return reset
