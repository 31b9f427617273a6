"""A device function as a Python generator function: one generator for every warp that runs it.

Whatever is the same for all lanes stays a scalar. `M` is the mask of active lanes. An operation that may block is tried again
until it can go on, and yields in between; so does a loop that polls memory. Both arms of a branch in which threads may block
are generators of their own, which the machine runs side by side.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tirx_bench.simulate import values
from tirx_bench.simulate.accesses import load, store
from tirx_bench.simulate.bounds import Bounds, of_type
from tirx_bench.simulate.capture import KernelCall, TensorMap, UnsupportedError, lines_of
from tirx_bench.simulate.findings import Site
from tirx_bench.simulate.machine import SPIN, Program
from tirx_bench.simulate.memory import moved
from tirx_bench.simulate.ops import (
    REGISTRY,
    Operation,
    Written,
    blocks,
    described,
    operands,
    polling,
    predicate_of,
    strings,
    variant,
    varying,
)
from tirx_bench.simulate.registers import Accumulators, Registers
from tirx_bench.simulate.values import BITS, FLOATS, byte_size, numpy_kind
from tirx_bench.tools.ir import operation, walk

BINARY = {
    "Add": "+", "Sub": "-", "Mul": "*", "BitwiseAnd": "&", "BitwiseOr": "|", "BitwiseXor": "^", "LShift": "<<", "RShift": ">>",
    "EQ": "==", "NE": "!=", "LT": "<", "LE": "<=", "GT": ">", "GE": ">=", "FloorDiv": "//", "FloorMod": "%",
}  # fmt: skip
CALLED = {"Div": "quotient", "Mod": "remainder", "Max": "larger", "Min": "smaller"}
EXTERN = {
    "exp2f": "np.exp2", "expf": "np.exp", "sqrtf": "np.sqrt", "rsqrtf": "rsqrt", "logf": "np.log", "log2f": "np.log2",
    "fabsf": "np.abs", "tanhf": "np.tanh", "floorf": "np.floor", "ceilf": "np.ceil", "fmaxf": "np.fmax", "fminf": "np.fmin",
}  # fmt: skip
ALIGNMENT = 128  # of a static array in shared memory
WRITES_NOTHING = ("ptx.ld", "ptx.cp_async_c", "ptx.prefetch", "address_of", "reinterpret", "cuda.cvta_generic_to_shared")


def translate(call: KernelCall, drop: int | None = None) -> Program:
    """Raises `UnsupportedError` naming what nothing here models. `drop` leaves out the intrinsic of that number."""
    return _Translation(call, drop).program()


@dataclass(frozen=True)
class _Buffer:
    """Where a buffer is: thread-local registers, or memory, at the Python expression `base`."""

    base: str
    local: bool


class _Translation:
    def __init__(self, call: KernelCall, drop: int | None):
        self.call, self.drop = call, drop
        self.lines: list[str] = []
        self.depth = 1
        self.names: dict[Any, str] = {}
        self.buffers: dict[Any, _Buffer] = {}
        self.sites: list[Site] = []
        self.numbered: dict[Site, int] = {}
        self.operations: list[tuple[int, str]] = []
        self.environment: dict[str, Any] = {
            **{name: getattr(values, name) for name in dir(values) if not name.startswith("_")},
            "Registers": Registers, "Accumulators": Accumulators, "load": load, "store": store,
            "moved": moved, "SPIN": SPIN, "rsqrt": lambda x: values.np.float32(1) / values.np.sqrt(x),
        }  # fmt: skip
        self.bounds = Bounds()
        self.static_bytes = 0
        self.number = 0
        self.unit = 16
        self.wraps = True
        self.communicates = False
        self.parameter = dict(zip(call.function.params, call.arguments, strict=True))
        self.written: set[str] = set()
        self.accumulators: set[Any] = set()
        walk(call.function.body, self._look)
        self.roots: dict[Any, str] = {}  # buffer: the tensor that it lies in

    def program(self) -> Program:
        for parameter in self.call.function.params:
            self.emit(f"{self.name(parameter)} = R.arguments[{parameter.name!r}]")
            self.environment.setdefault("R", None)
        self.emit("W = S.warp; seen = R.visited.add")
        self.statement(self.call.function.body)
        source = "def body(R, S, M):\n" + "\n".join(self.lines) + "\n    return\n    yield\n"
        exec(compile(source, f"<{self.call.function.attrs['global_symbol']}>", "exec"), self.environment)
        static = -(-self.static_bytes // 64) * 64  # the dynamic part is declared with this alignment
        return Program(self.environment["body"], source, tuple(self.sites), tuple(self.operations), static, self.unit,
                       frozenset(self.written), self.communicates)  # fmt: skip

    # ----------------------------------------------------------------------------------- what is looked up first

    def _look(self, node: Any) -> None:
        """Which tensors are stored to through a tensor map, and which registers a wgmma adds to."""
        name = operation_of(node)
        if name.startswith("ptx.wgmma_") and "mma_async" in strings(node):
            self.accumulators.update(a.source for a in operands(node)["d"])
        elif name.startswith("ptx.cp_") and "s2g" in name:
            self.written |= {a.tensor for a in self._arguments_in(node) if isinstance(a, TensorMap)}

    def _arguments_in(self, node: Any) -> list[Any]:
        """The kernel's arguments that an expression names."""
        found: list[Any] = []
        walk(node, lambda part: found.append(self.parameter.get(part)) if type(part).__name__ == "Var" else None)
        return [argument for argument in found if argument is not None]

    # ---------------------------------------------------------------------------------------------- writing

    def emit(self, line: str) -> None:
        self.lines.append("    " * self.depth + line)

    def block(self, head: str, write: Callable[[], None]) -> None:
        self.emit(head)
        self.depth += 1
        before = len(self.lines)
        write()
        if len(self.lines) == before:
            self.emit("pass")
        self.depth -= 1

    def fresh(self, stem: str) -> str:
        self.number += 1
        return f"{stem}{self.number}"

    def constant(self, value: Any, stem: str) -> str:
        name = self.fresh(stem)
        self.environment[name] = value
        return name

    def name(self, variable: Any) -> str:
        if variable not in self.names:
            self.names[variable] = self.fresh("".join(c if c.isalnum() else "_" for c in variable.name) + "_")
        return self.names[variable]

    def site(self, node: Any, what: str) -> int:
        site = Site(what, self._lines(node))
        if site not in self.numbered:
            self.numbered[site] = len(self.sites)
            self.sites.append(site)
        return self.numbered[site]

    def _lines(self, node: Any) -> tuple[tuple[str, int], ...]:
        """The lines of a statement. A tile copy is expanded without the author's line; the tensor that it moves tells it."""
        lines = lines_of(node.span)
        if type(node).__name__ != "Evaluate" or not operation_of(node.value).startswith("ptx.cp_async_bulk_tensor"):
            return lines
        moved_by = [a.tensor for a in self._arguments_in(node.value) if isinstance(a, TensorMap)]
        copies = [at for tensor in moved_by for at in self.call.copied_at.get(tensor, ())]
        return (*copies[0], *lines) if copies else lines

    def mark(self, node: Any, what: str) -> None:
        site = self.site(node, what)
        self.emit(f"W.at = {site}; seen({site})")

    # ------------------------------------------------------------------------------------------- expressions

    def expression(self, node: Any) -> str:
        kind = type(node).__name__
        method = getattr(self, f"_{kind.lower()}", None)
        if kind in BINARY:
            return self._wrapped(node, f"({self.expression(node.a)} {BINARY[kind]} {self.expression(node.b)})")
        if kind == "Div" and str(node.ty) in FLOATS:
            return f"({self.expression(node.a)} / {self.expression(node.b)})"
        if kind in CALLED:
            return f"{CALLED[kind]}({self.expression(node.a)}, {self.expression(node.b)})"
        if method is None:
            raise UnsupportedError(f"the expression {kind}")
        return str(method(node))

    def _wrapped(self, node: Any, text: str) -> str:
        dtype = str(node.ty)
        if dtype not in BITS or type(node).__name__ not in ("Add", "Sub", "Mul", "LShift"):
            return text
        (low, high), (least, most) = self.bounds.exact(node), of_type(dtype)
        if (least <= low and high <= most) or (not self.wraps and dtype == "int32"):
            return text
        return f"wrapped({text}, {BITS[dtype]}, {not dtype.startswith('u')})"

    def _intimm(self, node: Any) -> str:
        return str(bool(node.value)) if str(node.ty) == "bool" else str(int(node.value))

    def _floatimm(self, node: Any) -> str:
        return self.constant(numpy_kind(str(node.ty))(float(node.value)), "c")

    def _stringimm(self, node: Any) -> str:
        return repr(node.value)

    def _var(self, node: Any) -> str:
        return self.name(node)

    def _and(self, node: Any) -> str:
        return f"choose({self.expression(node.a)}, lambda M: {self.expression(node.b)}, lambda M: False, M)"

    def _or(self, node: Any) -> str:
        return f"choose({self.expression(node.a)}, lambda M: True, lambda M: {self.expression(node.b)}, M)"

    def _not(self, node: Any) -> str:
        return f"choose({self.expression(node.a)}, lambda M: False, lambda M: True, M)"

    def _select(self, node: Any) -> str:
        yes, no = self.expression(node.true_value), self.expression(node.false_value)
        return f"choose({self.expression(node.condition)}, lambda M: {yes}, lambda M: {no}, M)"

    def _cast(self, node: Any) -> str:
        source, target, text = str(node.value.ty), str(node.ty), self.expression(node.value)
        if source in BITS and target in BITS:
            low, high = self.bounds.of(node.value)
            least, most = of_type(target)
            if least <= low and high <= most:
                return text
        return f"cast({text}, {target!r})"

    def _tensorload(self, node: Any) -> str:
        buffer = self.buffers[node.source]
        if buffer.local:
            return f"{buffer.base}.load({self._index(node)}, M)"
        self._reads(node.source, str(node.ty))
        return f"load(W, M, {self._address(node)}, {str(node.ty)!r})"

    def _index(self, node: Any) -> str:
        """An index. Of shared memory and registers it is not wrapped: an index that overflows is outside of them anyway."""
        (index,) = node.indices
        source = node.source if type(node).__name__ == "TensorLoad" else node.buffer
        held, self.wraps = self.wraps, self.wraps and source in self.roots
        text = self.expression(index)
        self.wraps = held
        return text

    def _address(self, node: Any) -> str:
        size = byte_size(str(node.ty) if type(node).__name__ == "TensorLoad" else str(node.buffer.dtype))
        source = node.source if type(node).__name__ == "TensorLoad" else node.buffer
        return f"moved({self.buffers[source].base}, {self._index(node)} * {size})"

    def _reads(self, buffer: Any, dtype: str) -> None:
        if buffer not in self.roots:
            self.unit = min(self.unit, byte_size(dtype))

    def _call(self, node: Any) -> str:
        name = operation(node)
        if name == "address_of":
            return self._address_of(node.args[0])
        if name in ("cuda.cvta_generic_to_shared", "tvm_access_ptr"):
            return self.expression(node.args[0])
        if name == "reinterpret":
            source, target = str(node.args[0].ty), str(node.ty)
            text = self.expression(node.args[0])
            return f"reinterpreted({text}, {source!r}, {target!r})" if {source, target} <= {*BITS, *FLOATS} else text
        if name == "ptx.addr":
            return f"moved({self.expression(node.args[0])}, {self.expression(node.args[1])})"
        if name == "buffer_data":
            return self.buffers[node.args[0]].base
        if name == "cuda.thread_rank":
            return "W.thread"
        if name == "call_pure_extern" and node.args[0].value in EXTERN:
            return f"{EXTERN[node.args[0].value]}({', '.join(self.expression(a) for a in list(node.args)[1:])})"
        found = REGISTRY.get(name)
        if found is None or not found.value:
            raise UnsupportedError(f"the intrinsic {described(node)}")
        self._mutes(found, node, used=True)
        return self._applied(found, node)

    def _address_of(self, node: Any) -> str:
        if type(node).__name__ == "Var":
            return self.name(node)
        buffer = self.buffers[node.source]
        return f"Slot({buffer.base}, {self._index(node)})" if buffer.local else self._address(node)

    # ------------------------------------------------------------------------------------------- statements

    def statement(self, node: Any) -> None:
        method = getattr(self, f"_do_{type(node).__name__.lower()}", None)
        if method is None:
            raise UnsupportedError(f"the statement {type(node).__name__}")
        method(node)

    def _do_seqstmt(self, node: Any) -> None:
        for part in node.seq:
            self.statement(part)

    def _do_attrstmt(self, node: Any) -> None:
        if node.attr_key == "thread_extent":
            tag = str(node.node.thread_tag)
            self.bounds.known[node.node.var] = (0, int(node.value) - 1)
            self.emit(f"{self.name(node.node.var)} = W.index[{tag!r}]")
        self.statement(node.body)

    def _do_bind(self, node: Any) -> None:
        if str(node.var.ty) in BITS:
            self.bounds.known[node.var] = self.bounds.of(node.value)
        self.mark(node, "a value")
        self.emit(f"{self.name(node.var)} = {self.expression(node.value)}")

    def _do_allocbuffer(self, node: Any) -> None:
        buffer = node.buffer
        scope, dtype, size = buffer.scope(), str(buffer.dtype), 1
        for extent in buffer.shape:
            size *= int(extent)
        if scope == "local":
            kind = "Accumulators" if buffer in self.accumulators else "Registers"
            self.emit(f"{self.name(buffer)} = {kind}(W, {buffer.name!r}, {size}, {dtype!r})")
            self.buffers[buffer] = _Buffer(self.name(buffer), True)
        elif scope == "shared.dyn":
            self.buffers[buffer] = _Buffer("W.block.memory.dynamic", False)
        elif scope == "shared":
            start = -(-self.static_bytes // ALIGNMENT) * ALIGNMENT
            self.static_bytes = start + size * byte_size(dtype)
            self.buffers[buffer] = _Buffer(f"(W.block.memory.static + {start})", False)
        else:
            raise UnsupportedError(f"a buffer in the scope {scope}")

    def _do_declbuffer(self, node: Any) -> None:
        self.buffers[node.buffer] = _Buffer(self.expression(node.data), False)
        argument = self.parameter.get(node.data) if type(node.data).__name__ == "Var" else None
        if isinstance(argument, str):
            self.roots[node.buffer] = argument

    def _do_bufferstore(self, node: Any) -> None:
        self.mark(node, f"a store to {node.buffer.name}")
        buffer, value = self.buffers[node.buffer], self.expression(node.value)
        if buffer.local:
            self.emit(f"{buffer.base}.store({self._index(node)}, {value}, M)")
            return
        if node.buffer in self.roots:
            self.written.add(self.roots[node.buffer])
        else:
            self._reads(node.buffer, str(node.buffer.dtype))
        self.emit(f"store(W, M, {self._address(node)}, {value}, {str(node.buffer.dtype)!r})")

    def _do_ifthenelse(self, node: Any) -> None:
        self.mark(node, "a branch")
        yes, no = self.fresh("yes"), self.fresh("no")
        self.emit(f"{yes}, {no} = split({self.expression(node.condition)}, M)")
        if blocks(node.then_case) or (node.else_case is not None and blocks(node.else_case)):
            self._arms(node, yes, no)
            return
        held = self.fresh("held")
        self.emit(f"{held} = M")
        for mask, case in ((yes, node.then_case), (no, node.else_case)):
            if case is not None:
                self.block(f"if {mask} is not None:", lambda mask=mask, case=case: self._under(mask, case))  # type: ignore[misc]
        self.emit(f"M = {held}")

    def _under(self, mask: str, case: Any) -> None:
        self.emit(f"M = {mask}")
        self.statement(case)

    def _arms(self, node: Any, yes: str, no: str) -> None:
        names = []
        for case in (node.then_case, node.else_case):
            names.append(self.fresh("arm"))
            self.block(f"def {names[-1]}(S, M):", lambda case=case: self._arm(case))  # type: ignore[misc]
        self.emit(f"yield from R.arms(S, {names[0]}, {yes}, {names[1]}, {no})")

    def _arm(self, case: Any) -> None:
        if case is not None:
            self.statement(case)
        self.emit("return")
        self.emit("yield")

    def _do_for(self, node: Any) -> None:
        if node.step is not None and int(node.step) != 1:
            raise UnsupportedError(f"a loop with a step of {node.step}")
        low, extent = self.bounds.of(node.min), self.bounds.of(node.extent)
        self.bounds.known[node.loop_var] = (low[0], max(low[0], low[1] + extent[1] - 1))
        self.mark(node, "a loop")
        start, count, variable = self.expression(node.min), self.expression(node.extent), self.name(node.loop_var)
        if varying(node.min) or varying(node.extent):
            self._lane_loop(node, variable, start, count)
        else:
            head = f"for {variable} in range({start}, {start} + {count}):"
            self.block(head, lambda: self.statement(node.body))

    def _lane_loop(self, node: Any, variable: str, start: str, count: str) -> None:
        """A loop whose bounds may differ between lanes: each leaves when it is through."""
        held, end = self.fresh("held"), self.fresh("end")
        self.emit(f"{held} = M; {variable} = {start}; {end} = {variable} + {count}")

        def body() -> None:
            self.emit(f"M = split({variable} < {end}, M)[0]")
            self.emit("if M is None: break")
            self.statement(node.body)
            self.emit(f"{variable} = {variable} + 1")

        self.block("while True:", body)
        self.emit(f"M = {held}")

    def _do_while(self, node: Any) -> None:
        held = self.fresh("held")
        self.emit(f"{held} = M")
        polls = polling(node) and not blocks(node.body)

        def body() -> None:
            self.mark(node, "a loop")
            self.emit(f"M = split({self.expression(node.condition)}, M)[0]")
            self.emit("if M is None: break")
            self.statement(node.body)
            if polls:
                self.emit("yield SPIN")

        self.block("while True:", body)
        self.emit(f"M = {held}")

    def _do_evaluate(self, node: Any) -> None:
        if type(node.value).__name__ != "Call":
            return
        name = operation(node.value)
        found = REGISTRY.get(name)
        if found is None:
            raise UnsupportedError(f"the intrinsic {described(node.value)}")
        site = self.site(node, described(node.value))
        self.operations.append((site, variant(node.value)))
        if self.drop == len(self.operations) - 1:
            return
        self._mutes(found, node.value, used=not found.value)
        self.emit(f"W.at = {site}; seen({site})")
        if found.inert:
            return
        call = self._applied(found, node.value)
        if not found.blocking:
            self.emit(call)
            if found.yields:
                self.emit("if R.schedule.by_chance: yield")
            return
        self.block(f"while not {call}:", lambda: self.emit(f"yield; W.at = {site}"))
        if found.yields:
            self.emit("if R.schedule.by_chance: yield")

    def _mutes(self, found: Operation, call: Any, used: bool) -> None:
        """What an intrinsic does to memory: which tensors it may write, how fine it accesses shared memory, whether it talks."""
        if found.unit is not None:
            self.unit = min(self.unit, found.unit(strings(call), call))
        touched: set[str] = set()

        def visit(node: Any) -> None:
            if operation_of(node) == "address_of" and getattr(node.args[0], "source", None) in self.roots:
                touched.add(self.roots[node.args[0].source])
            elif type(node).__name__ == "Var" and isinstance(self.parameter.get(node), str):
                touched.add(self.parameter[node])

        for argument in call.args:
            if type(argument).__name__ == "Call":
                walk(argument, visit)
        if not operation(call).startswith(WRITES_NOTHING):
            self.written |= touched
        if found.communicates and used and touched:  # what an atomic found there decides what a block does next
            self.communicates = True

    def _applied(self, found: Operation, call: Any) -> str:
        """The Python call of an operation's function on its operands."""
        given = operands(call)
        words = {name: self._operand(node) for name, node in given.items()}
        if wrong := (set(words) ^ set(found.operands)) - found.optional:
            raise UnsupportedError(f"the operands {', '.join(sorted(wrong))} of {described(call)}")
        handler = self.constant(found.bound(call), "op")
        predicate = predicate_of(call)
        arguments = ", ".join(f"{name}={text}" for name, text in words.items())
        if predicate is None:
            return f"{handler}(S, M{', ' if arguments else ''}{arguments})"
        if found.value or found.blocking:
            raise UnsupportedError(f"a predicate on {described(call)}")
        mask = self.fresh("holds")
        self.emit(f"{mask} = split({self.expression(predicate)}, M)[0]")
        return f"{mask} is None or {handler}(S, {mask}{', ' if arguments else ''}{arguments})"

    def _group(self, nodes: tuple[Any, ...]) -> str:
        """Neighbouring accumulators, by the first one."""
        first, source = nodes[0].node.indices[0], nodes[0].source
        for number, written in enumerate(nodes):
            index = written.node.indices[0]
            if not written.source.same_as(source) or varying(index) or int(index) != int(first) + number:
                raise UnsupportedError("accumulators of wgmma that are not neighbours in one array")
        return f"Slot({self.buffers[source].base}, {int(first)})"

    def _operand(self, node: Any) -> str:
        if isinstance(node, tuple) and node and isinstance(node[0], Written) and node[0].source in self.accumulators:
            return self._group(node)
        if isinstance(node, tuple):
            return f"({''.join(self._operand(part) + ', ' for part in node)})"
        if isinstance(node, Written):
            load = node.node
            return f"Slot({self.buffers[load.source].base}, {self._index(load)})"
        return "None" if node is None else self.expression(node)


def operation_of(node: Any) -> str:
    return operation(node) if type(node).__name__ == "Call" else ""
