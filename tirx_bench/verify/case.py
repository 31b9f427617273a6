"""One problem on the device: seeded inputs, poisoned outputs, frames around all of them, and what is expected."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any

from tirx_bench.device import Device, Product
from tirx_bench.model import FILLS, Kernel, NothingRanError, Params, Shape, UsageError, call
from tirx_bench.verify.arithmetic import LONG_SUM, exact
from tirx_bench.verify.fills import Filled

Buffers = dict[str, Any]


@dataclass(frozen=True)
class Case:
    """One problem on the device: inputs, outputs and workspace by name, and what the outputs should be, in FP32."""

    kernel: Kernel
    params: Params
    seed: int
    kind: str  # one of FILLS
    fill: str  # what was drawn
    inputs: Buffers
    outputs: Buffers
    workspace: Buffers
    working: Buffers  # copies of the in-place arguments, which the kernel may change
    expected: dict[str, Any]
    magnitude: dict[str, Any]  # the sum of |a||b|, where the kernel gives one
    reference: str
    frames: Buffers  # the memory around each of them

    @property
    def buffers(self) -> Buffers:
        """What a launch of the kernel gets."""
        return {**self.inputs, **self.outputs, **self.workspace, **self.working}

    def twin(self, device: Device, seed: int) -> Case:
        """The same problem in memory of its own, with the values of `seed`."""
        return prepare(self.kernel, self.params, device, seed, self.kind)

    def reset(self, own: Buffers | None = None) -> None:
        """Give the in-place arguments their first values again: the case's, or those among `own`."""
        for name in self.working:
            (self.working if own is None else own)[name][...] = self.inputs[name]

    def poison(self, outputs: Buffers, device: Device) -> None:
        """Outputs, the case's or another's, as if nobody had written them, but for the in-place arguments among them."""
        device.poison(array for name, array in outputs.items() if name not in self.working)


def prepare(kernel: Kernel, params: Params, device: Device, seed: int, kind: str = FILLS[0]) -> Case:
    """Seeded inputs, poisoned outputs and workspace, each in a frame, and the reference from the inputs as the kernel sees them.

    Raises `NothingRanError` when the kernel draws no inputs that `kind` could fill.
    """
    memory, declared = _Memory(device), call(kernel.outputs, params)
    given, fill = _drawn(kernel, params, device, seed, kind)
    _refuse_contradictions(kernel, params, given, declared)
    how = f"{device.exact_reference()}; FP64 where @ sums over {LONG_SUM} terms"
    inputs = memory.copies(given)
    expected = referred(kernel, params, widened(inputs, device), exact(device), device)
    if set(expected) != set(declared):
        raise UsageError(f"{kernel.name}: reference gives {sorted(expected)} and outputs {sorted(declared)}")
    working = memory.copies({name: inputs[name] for name in kernel.inplace}, called="in place ")
    outputs = memory.poisoned({name: shape for name, shape in declared.items() if name not in working})
    outputs |= {name: array for name, array in working.items() if name in declared}
    workspace = memory.poisoned(call(kernel.workspace, params)) if kernel.workspace else {}
    sums = _magnitudes(kernel, params, inputs, device)
    if sums and set(sums) != set(declared):
        raise UsageError(f"{kernel.name}: magnitude gives {sorted(sums)} and outputs {sorted(declared)}")
    return Case(kernel, params, seed, kind, fill, inputs, outputs, workspace, working, expected, sums, how, memory.frames)


def _refuse_contradictions(kernel: Kernel, params: Params, given: Buffers, declared: Mapping[str, tuple[Shape, str]]) -> None:
    """Raise `UsageError` where the parts of a kernel's description do not fit together."""
    if both := sorted(set(given) & set(declared) - set(kernel.inplace)):
        raise UsageError(f"{kernel.name}: {both} are inputs and outputs", "inplace=(...) names inputs that the kernel changes")
    for name, levels in kernel.tiles_for(params).items():
        if name not in declared:
            raise UsageError(f"{kernel.name}: tiles are given of {name!r}, which is no output")
        for tile in levels:
            given_rank, rank = len(tile.shape), len(declared[name][0])
            if given_rank != rank:
                raise UsageError(f"{kernel.name}: the tile {tile.owner!r} has {given_rank} dimensions, {name} has {rank}")


class _Memory:
    """Arrays that are framed each, so none of them is another."""

    def __init__(self, device: Device):
        self.device = device
        self.frames: Buffers = {}

    def framed(self, name: str, shape: Shape, dtype: str) -> Any:
        array, self.frames[name] = self.device.framed(shape, dtype)
        return array

    def copies(self, arrays: Mapping[str, Any], called: str = "") -> Buffers:
        copied = {}
        for name, array in arrays.items():
            copied[name] = self.framed(f"{called}{name}", tuple(array.shape), self.device.dtype_of(array))
            copied[name][...] = array
        return copied

    def poisoned(self, shapes: Mapping[str, tuple[Shape, str]]) -> Buffers:
        arrays = {name: self.framed(name, tuple(shape), dtype) for name, (shape, dtype) in shapes.items()}
        self.device.poison(arrays.values())
        return arrays


def _drawn(kernel: Kernel, params: Params, device: Device, seed: int, kind: str) -> tuple[Buffers, str]:
    """The kernel's inputs and what was drawn for them."""
    rng = Filled(device, seed, kind)
    inputs = dict(call(kernel.inputs, {**params, "rng": rng}))
    if kind != FILLS[0] and not rng.filled:
        raise NothingRanError(f"{kernel.name} draws nothing from rng.normal that {kind} inputs could be")
    fill = ", ".join(dict.fromkeys(rng.drawn))
    if len(rng.drawn) < len(inputs):  # some of them were not drawn
        fill = "; ".join([*([fill] if fill else []), _moments(inputs, device)])
    return inputs, fill


def _moments(inputs: Buffers, device: Device) -> str:
    """What inputs hold that nothing was drawn for: zeros make another time than random numbers do."""
    wide = {name: device.widen(array) for name, array in inputs.items()}
    return ", ".join(f"{name} mean {float(w.mean()):.3g} sd {float(w.std()):.3g}" for name, w in wide.items())


def widened(inputs: Buffers, device: Device) -> Buffers:
    """In FP32 and in memory of their own, so that a kernel that overwrites an input cannot change what is expected."""
    wide = {name: device.widen(array) for name, array in inputs.items()}
    return {name: device.copy(array) if array is inputs[name] else array for name, array in wide.items()}


def referred(kernel: Kernel, params: Params, wide: Buffers, product: Product, device: Device) -> Buffers:
    """What the kernel's reference gives for widened inputs, with `product` in the place of ``@``."""
    found = call(kernel.reference, {**params, **device.watched(wide, product)})
    return {name: device.widen(device.plain(array)) for name, array in found.items()}


def _magnitudes(kernel: Kernel, params: Params, inputs: Buffers, device: Device) -> Buffers:
    """The sums of |a||b| by output; none if the kernel does not say."""
    if kernel.magnitude is None:
        return {}
    return {name: device.widen(a) for name, a in call(kernel.magnitude, {**params, **widened(inputs, device)}).items()}


def refill(case: Case, device: Device, seed: int, keep: Collection[str] = ()) -> None:
    """Other values in the same memory, and what they should give: a kernel that remembers its answer is now wrong.

    The inputs named in `keep` stay as they are.
    """
    values, _ = _drawn(case.kernel, case.params, device, seed, case.kind)
    for name, array in case.inputs.items():
        if name not in keep:
            array[...] = values[name]
    case.expected.update(referred(case.kernel, case.params, widened(case.inputs, device), exact(device), device))
    case.magnitude.update(_magnitudes(case.kernel, case.params, case.inputs, device))
    case.reset()


def fresh(shapes: Callable[..., Mapping[str, Any]], params: Params, device: Device) -> Buffers:
    """Poisoned arrays of the shapes and dtypes that `outputs` gives."""
    return {name: device.poisoned(shape, dtype) for name, (shape, dtype) in call(shapes, params).items()}


def baseline_outputs(case: Case, device: Device) -> Buffers:
    """Memory of its own for another implementation: poisoned outputs, and in-place arguments with their first values."""
    copies = {name: device.copy(case.inputs[name]) for name in case.kernel.inplace}
    return {**fresh(case.kernel.outputs, case.params, device), **copies}


def restore_inputs(case: Case, before: Buffers, device: Device) -> list[str]:
    """The names of the inputs whose bits are not those of `before`; they have them again."""
    changed = [name for name, array in before.items() if not device.same_bits(case.inputs[name], array)]
    for name in changed:
        case.inputs[name][...] = before[name]
    return changed
