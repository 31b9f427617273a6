"""What ptxas says of each function, as numbers and as findings."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from tirx_bench.compile.lower import Launch
from tirx_bench.hardware import MULTIPROCESSORS, capability
from tirx_bench.model import Finding, Resources

ENTRY = re.compile(r"Compiling entry function '(\w+)'")
PROPERTIES = re.compile(r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads")
USED = re.compile(r"Used (\d+) registers(?:, used (\d+) barriers)?(.*)")
STATIC_SMEM = re.compile(r"(\d+) bytes smem")
NOTE = re.compile(r"\((C75\d\d)\)\s*(.+)")
ENTRY_PTX = re.compile(r"\.entry (\w+)\(")
SETMAXNREG = re.compile(r"setmaxnreg\.(inc|dec)\.sync\.aligned\.u32 (\d+)")

# Source: the notes' own texts, seen with ptxas 13.0.
NOTES = {
    "C7508": "setmaxnreg was ignored: ptxas knows no register cap at entry; give launch bounds with one block per SM",
    "C7511": "wgmma instructions are serialised, so no MMA overlaps the next; ptxas gives the reason",
    "C7517": "ptxas had to insert a wgmma wait: one is missing before the accumulators are read",
    "C7519": "ptxas had to insert a wgmma fence: one is missing before the first MMA",
}


@dataclass(frozen=True)
class Usage:
    """ptxas's numbers for one function; sizes in bytes."""

    registers: int
    barriers: int
    stack: int
    spill_stores: int
    spill_loads: int
    static_smem: int


def parse(output: str) -> dict[str, Usage]:
    """ptxas -v output to usage by function, every function of the module."""
    usage: dict[str, Usage] = {}
    function, frame = "", (0, 0, 0)
    for line in output.splitlines():
        if match := ENTRY.search(line):
            function, frame = match.group(1), (0, 0, 0)
        elif match := PROPERTIES.search(line):
            frame = (int(match[1]), int(match[2]), int(match[3]))
        elif function and (match := USED.search(line)):
            smem = STATIC_SMEM.search(match[3])
            usage[function] = Usage(int(match[1]), int(match[2] or 0), *frame, int(smem[1]) if smem else 0)
    return usage


def resources(output: str, launches: Sequence[Launch]) -> tuple[Resources, ...]:
    """What each launched function takes. One that ptxas did not name is left out."""
    usage = parse(output)
    return tuple(
        Resources(
            function=launch.function, registers=use.registers, spill_store_bytes=use.spill_stores,
            spill_load_bytes=use.spill_loads, stack_bytes=use.stack, static_smem_bytes=use.static_smem,
            dynamic_smem_bytes=launch.dynamic_smem_bytes, threads=launch.threads, grid=launch.grid,
            cluster=launch.cluster, barriers=use.barriers,
        )
        for launch in launches
        if (use := usage.get(launch.function))
    )  # fmt: skip


def findings(output: str, ptx: str, arch: str, functions: Sequence[Resources]) -> tuple[Finding, ...]:
    found = [_note(code, text) for code, text in dict.fromkeys(NOTE.findall(output))]
    _, *parts = ENTRY_PTX.split(ptx)
    bodies = dict(zip(parts[::2], parts[1::2], strict=True))
    for function in functions:
        found += _memory(function, arch)
        if "'setmaxnreg' ignored" not in output:
            found += _register_pool(function, bodies.get(function.function, ""))
    if not arch.endswith("a") and int(capability(arch)) >= 90:
        own = f"sm_{capability(arch)}a"
        message = f"{arch} leaves out the architecture's own instructions (wgmma, setmaxnreg, tcgen05): {own} has them"
        found.append(Finding("TARGET", "warning", message))
    return tuple(found)


def _note(code: str, text: str) -> Finding:
    return Finding(code, "warning", NOTES.get(code, "ptxas reports a performance loss"), evidence=text.strip())


def _memory(function: Resources, arch: str) -> list[Finding]:
    found = []
    name = function.function
    if spilled := function.spill_store_bytes + function.spill_load_bytes:
        found.append(Finding("SPILL", "warning", f"{name} spills registers: {spilled} bytes of stores and loads per thread"))
    elif function.stack_bytes:
        message = f"{name} keeps {function.stack_bytes} bytes per thread in local memory: a register array is indexed at run time"
        found.append(Finding("LOCAL", "warning", message))
    sm = MULTIPROCESSORS.get(capability(arch))
    if sm and function.smem_bytes > sm.block_smem_bytes:
        message = f"{name} asks for {function.smem_bytes} bytes of shared memory; a block of {arch} has {sm.block_smem_bytes}"
        found.append(Finding("SMEM", "error", message, evidence="the launch would fail; use fewer stages or a smaller tile"))
    return found


def _register_pool(function: Resources, body: str) -> list[Finding]:
    """setmaxnreg takes registers from the block's pool; an `inc` that the pool cannot serve waits for ever."""
    values = {kind: [int(n) for k, n in SETMAXNREG.findall(body) if k == kind] for kind in ("inc", "dec")}
    groups = function.threads // 128
    if not values["inc"] or not groups:
        return []
    low, high = min(values["dec"], default=function.registers), max(values["inc"])
    pool = function.registers * function.threads
    least, usual = 128 * (low * (groups - 1) + high), 128 * (low + high * (groups - 1))
    if least > pool:
        message = f"setmaxnreg.inc {high} cannot be served: even one warpgroup with it needs {least} of {pool} registers"
        return [Finding("SETMAXNREG", "error", message, evidence="the warpgroup would wait for ever")]
    if usual > pool:
        message = (
            f"setmaxnreg {low}/{high} over-subscribes the pool if one of {groups} warpgroups gives registers back: "
            f"{usual} of {pool}"
        )
        return [Finding("SETMAXNREG", "warning", message, evidence="a warpgroup that the pool cannot serve waits for ever")]
    return []
