"""PrimFunc -> block: the only part of lint that knows TVM's IR.

It matches on the names of classes and operators, because these have changed less between releases than their modules.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tirx_bench.lint.tree import Block, Branch, Event, Jump, Loop, Site, TokenStore
from tirx_bench.model import Place

if TYPE_CHECKING:
    from tvm.tirx import PrimFunc

IKET = "tirx.cuda.iket_"
JUMP_OPS = {
    "tirx.break_loop": "break", "tirx.continue_loop": "continue", "tirx.thread_return": "return", "tirx.ret": "return",
}  # fmt: skip
JUMP_NODES = {"Break": "break", "Continue": "continue", "Return": "return"}
THREAD_BINDING = 4


def read(function: PrimFunc) -> Block:
    """What matters for IKET in `function`."""
    return _Reader().statement(function.body)


class _Reader:
    def __init__(self) -> None:
        from tvm import sym

        self.analyzer = sym.Analyzer()
        self.tokens: dict[Any, int] = {}

    def statement(self, node: Any) -> Block:
        """Any statement; one that has no method here is looked through to its body, if it has one."""
        kind = type(node).__name__
        if kind in JUMP_NODES:
            return (Jump(JUMP_NODES[kind], site(node)),)  # type: ignore[arg-type]
        read_kind = getattr(self, f"_{kind}", None)
        if read_kind is not None:
            return read_kind(node)
        body = getattr(node, "body", None)
        return self.statement(body) if body is not None else ()

    def _SeqStmt(self, node: Any) -> Block:
        return tuple(item for child in node.seq for item in self.statement(child))

    def _ScopeIdDefStmt(self, node: Any) -> Block:
        """Bound, so that a condition that every warp or none meets is folded.

        TVM folds it too before it lowers IKET, unless it is on a warp id: names in such an arm take ids all the same.
        """
        definition = getattr(node, "def")
        for variable, extent in zip(definition.def_ids, definition.extents or (), strict=False):
            self._bind(variable, 0, extent)
        return ()

    def _IfThenElse(self, node: Any) -> Block:
        then = self.statement(node.then_case)
        other = self.statement(node.else_case) if node.else_case is not None else ()
        if not then and not other:
            return ()
        constant = _integer(self.analyzer.simplify(node.condition))
        if constant is not None:
            return then if constant else other
        return (Branch(str(node.condition), site(node), then, other),)

    def _For(self, node: Any) -> Block:
        if int(node.kind) == THREAD_BINDING:
            return self.statement(node.body)
        self._bind(node.loop_var, node.min, node.extent)
        body = self.statement(node.body)
        trips = self._trips(node)
        if not body or trips == 0:
            return ()
        return (Loop(f"loop over {node.loop_var.name}", site(node), trips, body),)

    def _While(self, node: Any) -> Block:
        body = self.statement(node.body)
        constant = _integer(self.analyzer.simplify(node.condition))
        if not body or constant == 0:
            return ()
        return (Loop(f"while {node.condition}", site(node), None, body, endless=constant is not None),)

    def _BufferStore(self, node: Any) -> Block:
        return self._store(node.buffer, node.value, site(node))

    def _Bind(self, node: Any) -> Block:
        return self._store(node.var, node.value, site(node))

    def _Evaluate(self, node: Any) -> Block:
        operator = _operator(node.value)
        if operator in JUMP_OPS:
            return (Jump(JUMP_OPS[operator], site(node)),)  # type: ignore[arg-type]
        if operator in (IKET + "range_start", IKET + "sentinel_token"):
            return self._store(None, node.value, site(node))
        return self._event(operator, list(node.value.args), site(node)) if operator.startswith(IKET) else ()

    def _event(self, operator: str, args: list[Any], where: Site) -> Block:
        if operator == IKET + "range_pop":
            return (Event("pop", where),)
        if operator == IKET + "range_end":
            return (Event("end", where, token=self._token(args[0]), payload=_payload(args)),)
        kinds = {IKET + "mark": "mark", IKET + "range_push": "push"}
        if operator in kinds:
            return (Event(kinds[operator], where, _name(args), payload=_payload(args)),)  # type: ignore[arg-type]
        return ()

    def _store(self, target: Any, value: Any, where: Site) -> Block:
        operator = _operator(value)
        token = None if target is None else self._number(target)
        if operator == IKET + "range_start":
            return (TokenStore("start", where, token, _name(value.args), payload=_payload(value.args)),)
        if operator == IKET + "sentinel_token":
            return (TokenStore("sentinel", where, token, _name(value.args)),)
        if _may_hold_token(target) and _may_hold_token(getattr(value, "source", None)):
            return (TokenStore("copy", where, token, origin=self._token(value)),)
        return ()

    def _token(self, value: Any) -> int | None:
        """The number of the token that `value` reads, None for any other value."""
        source = getattr(value, "source", value if type(value).__name__ == "Var" else None)
        return None if source is None else self._number(source)

    def _number(self, variable: Any) -> int:
        """The dictionary keeps the wrapper alive; without it, TVM may reuse the address that the hash comes from."""
        return self.tokens.setdefault(variable, len(self.tokens))

    def _bind(self, variable: Any, low: Any, extent: Any) -> None:
        from tvm.ir import Range

        if extent is not None:
            self.analyzer.bind(variable, Range.from_min_extent(low, extent))

    def _trips(self, node: Any) -> int | None:
        if getattr(node, "step", None) is not None and _integer(node.step) != 1:
            return None
        trips = _integer(self.analyzer.simplify(node.extent))
        return None if trips is None else max(trips, 0)


def site(node: Any) -> Site:
    """An inlined statement has a SequentialSpan: the outermost call site first, the statement itself last."""
    span = getattr(node, "span", None)
    if span is None:
        return Site(None)
    places = [Place(s.source_name.name, s.line, s.column) for s in getattr(span, "spans", (span,))]
    return Site(places[-1], tuple(reversed(places[:-1])))


def _operator(value: Any) -> str:
    return getattr(value.op, "name", "") if type(value).__name__ == "Call" else ""


def _name(args: Any) -> str | None:
    return str(args[0].value) if type(args[0]).__name__ == "StringImm" else None


def _payload(args: Any) -> str | None:
    return str(args[1].ty.dtype) if len(args) > 1 else None


def _integer(value: Any) -> int | None:
    return int(value.value) if type(value).__name__ == "IntImm" else None


def _may_hold_token(buffer: Any) -> bool:
    """TVM allows a token only in element zero of a local uint32[1] buffer. On a scalar Var, `scope` raises."""
    if buffer is None or type(buffer.ty).__name__ != "BufferType":
        return False
    return buffer.scope() == "local" and str(buffer.dtype) == "uint32" and len(buffer.shape) == 1
