"""What TVM made of a kernel: the device functions that it would print as CUDA, and how the host calls them.

The device function is the last one that TVM's passes leave. The host's is taken right after they are split apart, where its
tensor maps and the order of the arguments can still be read.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from tirx_bench.tools.ir import operation, walk

REGISTER_FILE = 65536
Lines = tuple[tuple[str, int], ...]


class UnsupportedError(Exception):
    """Something in the kernel that nothing here models, by name."""


@dataclass(frozen=True)
class TensorMap:
    """A CUtensorMap. Dimensions and box from the innermost, in elements; strides in bytes, without the innermost."""

    name: str
    tensor: str
    byte_offset: int
    dtype: str
    dims: tuple[int, ...]
    strides: tuple[int, ...]
    box: tuple[int, ...]
    swizzle: int  # CUtensorMapSwizzle: none, 32, 64 or 128 bytes
    fill_nan: bool


@dataclass(frozen=True)
class KernelCall:
    """One launch: the device function, its arguments by parameter, and its shape."""

    function: Any
    names: tuple[str, ...]
    arguments: tuple[TensorMap | str | int | float, ...]  # a string names a tensor
    grid: tuple[int, int, int]
    cluster: tuple[int, int, int]
    threads: int
    dynamic_bytes: int
    copied_at: dict[str, tuple[Lines, ...]]  # the lines of the tile copies of a tensor, whose expansion has no line

    @property
    def blocks(self) -> int:
        return math.prod(self.grid)

    @property
    def registers(self) -> int:
        """Registers of a thread at launch: what launch bounds leave, in steps of 8."""
        return min(255, REGISTER_FILE // self.threads) // 8 * 8

    def clusters(self) -> Iterator[tuple[int, int, int]]:
        """The first block of each."""
        for z in range(0, self.grid[2], self.cluster[2]):
            for y in range(0, self.grid[1], self.cluster[1]):
                for x in range(0, self.grid[0], self.cluster[0]):
                    yield x, y, z


def snapshots() -> tuple[Any, dict[str, Any]]:
    """An instrument for TVM's passes, and where it puts the module after each, the last one as "last"."""
    import tvm

    modules: dict[str, Any] = {}

    @tvm.instrument.pass_instrument
    class Snapshots:
        def run_after_pass(self, module: Any, info: Any) -> None:
            modules.setdefault(info.name, module)
            modules["last"] = module

    return Snapshots(), modules


def kernel_calls(modules: dict[str, Any]) -> tuple[KernelCall, ...]:
    """Every launch, in the host's order. Raises `UnsupportedError` on what cannot be read."""
    device = {g.name_hint: f for g, f in modules["last"].functions.items() if "calling_conv" in (f.attrs or {})}
    copies = _tile_copies(modules["tirx.BindTarget"])
    found: list[KernelCall] = []
    for variable, host in modules["tirx.SplitHostDevice"].functions.items():
        if variable.name_hint not in device:
            found += _Host(host, device, copies).calls
    return tuple(found)


def _tile_copies(module: Any) -> dict[str, tuple[Lines, ...]]:
    found: dict[str, list[Lines]] = {}

    def visit(node: Any) -> None:
        if type(node).__name__ == "TilePrimitiveCall" and node.op.name.endswith("copy_async"):
            for argument in node.args:
                if (buffer := getattr(argument, "source", None)) is not None:
                    found.setdefault(buffer.name, []).append(lines_of(node.span))

    for function in module.functions.values():
        walk(function.body, visit)
    return {name: tuple(lines) for name, lines in found.items()}


class _Host:
    """A host function: which parameter every variable comes from, its tensor maps, its launches."""

    def __init__(self, host: Any, device: dict[str, Any], copies: dict[str, tuple[Lines, ...]]):
        self.device, self.copies = device, copies
        self.origin: dict[Any, tuple[str, int]] = {p: (p.name, 0) for p in host.params}
        self.maps: dict[Any, TensorMap] = {}
        self.calls: list[KernelCall] = []
        walk(host.body, self._visit)

    def _root(self, node: Any) -> tuple[str, int]:
        """The parameter that an address is in, and the byte offset there."""
        if type(node).__name__ != "Call":
            return self.origin[node]
        tensor, offset = self._root(node.args[0])
        shifts = operation(node).endswith("handle_add_byte_offset")
        return tensor, offset + (int(node.args[1]) if shifts else 0)

    def _visit(self, node: Any) -> None:
        kind = type(node).__name__
        if kind == "DeclBuffer":
            self.origin[node.buffer] = self._root(node.data)
        elif kind == "Bind" and type(node.value).__name__ == "Call" and "stack_alloca" not in operation(node.value):
            with contextlib.suppress(KeyError, IndexError):  # no address: a size, or a handle of the host's own
                self.origin[node.var] = self._root(node.value)
        elif kind == "Call" and operation(node).endswith("tensormap_encode_tiled"):
            self._tile_map(node)
        elif kind == "Call" and "call_packed" in operation(node):
            if getattr(node.args[0], "value", "") == "runtime.cuTensorMapEncodeTiled":
                self._encoded_map(node)
        elif kind == "Call" and operation(node).endswith("call_ffi_kernel"):
            self._launch(node)

    def _tile_map(self, node: Any) -> None:
        """The call that tile copies make: (map, address, dims, strides, box, element strides)."""
        said, numbers = node.attrs, [int(x) for x in list(node.args)[2:]]
        self._add_map(node.args[0], node.args[1], str(said["descriptor_dtype"]), int(said["rank"]), numbers,
                      int(said["interleave"]), int(said["swizzle"]), int(said["oob_fill"]))  # fmt: skip

    def _encoded_map(self, node: Any) -> None:
        """A call written by hand: (map, dtype, rank, address, dims, strides, box, steps, interleave, swizzle, L2, fill)."""
        given = list(node.args)[1:]
        rank = int(given[2])
        numbers = [int(x) for x in given[4:]]
        interleave, swizzle, _, fill = numbers[4 * rank - 1 : 4 * rank + 3]
        self._add_map(given[0], given[3], str(given[1].value), rank, numbers, interleave, swizzle, fill)

    def _add_map(self, variable: Any, address: Any, dtype: str, rank: int, numbers: list[int], interleave: int, swizzle: int,
                 fill: int) -> None:  # fmt: skip
        dims, strides = numbers[:rank], numbers[rank : 2 * rank - 1]
        box, steps = numbers[2 * rank - 1 : 3 * rank - 1], numbers[3 * rank - 1 : 4 * rank - 1]
        if interleave or any(step != 1 for step in steps):
            raise UnsupportedError(f"the tensor map {variable.name}: interleaved, or with element strides {steps}")
        tensor, offset = self._root(address)
        self.maps[variable] = TensorMap(
            variable.name, tensor, offset, dtype, tuple(dims), tuple(strides), tuple(box), swizzle, bool(fill)
        )

    def _launch(self, node: Any) -> None:
        function = self.device[str(node.args[0].value)]
        given = [x for x in node.args if type(x).__name__ != "StringImm"]
        count = len(function.params)
        labels = [str(label) for label in node.attrs["launch_params"]]
        values = given[count : count + len(labels)]
        if wrong := next((label for label, v in zip(labels, values, strict=True) if type(v).__name__ != "IntImm"), None):
            raise UnsupportedError(f"a launch whose {wrong} is not a constant")
        shape = {label: int(value) for label, value in zip(labels, values, strict=True)}
        grid, cluster, block = (_triple(shape, prefix) for prefix in ("blockIdx", "clusterCtaIdx", "threadIdx"))
        if block[1:] != (1, 1):
            raise UnsupportedError(f"a block of {block} threads: more than one dimension")
        self.calls.append(
            KernelCall(
                function, tuple(p.name for p in function.params), tuple(self._argument(x) for x in given[:count]), grid,
                cluster, block[0], shape.get("tirx.use_dyn_shared_memory", 0), self.copies,
            )
        )  # fmt: skip

    def _argument(self, node: Any) -> TensorMap | str | int | float:
        if node in self.maps:
            return self.maps[node]
        if type(node).__name__ in ("IntImm", "FloatImm"):
            value: int | float = node.value
            return value
        tensor, offset = self._root(node)
        if offset:
            raise UnsupportedError(f"an argument that is not the beginning of {tensor}")
        return tensor


def _triple(shape: dict[str, int], prefix: str) -> tuple[int, int, int]:
    return shape.get(f"{prefix}.x", 1), shape.get(f"{prefix}.y", 1), shape.get(f"{prefix}.z", 1)


def inner(statement: Any) -> tuple[Any, ...]:
    """The statements that a statement holds."""
    kind = type(statement).__name__
    if kind == "SeqStmt":
        return tuple(statement.seq)
    if kind == "IfThenElse":
        return (statement.then_case,) if statement.else_case is None else (statement.then_case, statement.else_case)
    return (statement.body,) if kind in ("AttrStmt", "For", "While") else ()


def lines_of(span: Any) -> Lines:
    """The Python lines of a statement, the outermost call first."""
    if span is None:
        return ()
    if type(span).__name__ == "SequentialSpan":
        return tuple(line for part in span.spans for line in lines_of(part))
    return ((span.source_name.name, int(span.line)),)
