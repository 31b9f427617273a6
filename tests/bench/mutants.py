"""Every intrinsic of every reference kernel left out in turn: does the simulator notice?

    python tests/bench/mutants.py OUT.json [KERNEL...]

A mutant that nobody notices is a documented no-op (EXPECTED, with the reason) or a bug of the simulator. A run that ends in an
exception counts apart: it notices nothing.
"""

from __future__ import annotations

import datetime
import json
import sys
from collections import Counter
from pathlib import Path
from typing import Any

KERNELS = ("gemm", "gemm_relu", "warp_roles")
EVERY_NTH = {"cvt": 8}  # of a kind of which there are many alike
EXPECTED = {
    "setmaxnreg.inc": "registers that nobody needs in the simulator",
    "fence.mbarrier_init": "the fence.proxy.async that follows it covers the initialisation too",
    "fence.proxy.async": "behind the initialisation, the fence.mbarrier_init before it covers it too",
}


def noticed(simulator: Any, case: Any) -> str:
    """What the late and one seeded schedule show: rules, "numbers" or "nothing"."""
    from tirx_bench.device.fake import FakeDevice
    from tirx_bench.simulate import LATE, seeded
    from tirx_bench.verify import compare

    device, rules, wrong = FakeDevice(), set(), False
    for schedule in (LATE, seeded(7)):
        case.poison(case.outputs, device)
        case.reset()
        rules |= {f.rule for f in simulator.run(case.buffers, schedule).findings}
        wrong |= not all(o.passed for o in compare(case, case.outputs, device).outputs)
    return ", ".join(sorted(rules)) or ("numbers" if wrong else "nothing")


def mutants(name: str) -> dict[str, Any]:
    """What was noticed of each kind of intrinsic, and who survived; prints it too."""
    from tirx_bench.catalog import find
    from tirx_bench.compile import build_functions, compile_module, load_tvm
    from tirx_bench.device.fake import FakeDevice
    from tirx_bench.simulate import Simulator, snapshots
    from tirx_bench.tools import scoped_variable
    from tirx_bench.verify import prepare

    kernel = find(name).kernel
    params = {**kernel.params(kernel.workloads[0]), **kernel.small}
    params.update({"n": 264, "sms": 1} if "sms" in params else {})
    load_tvm()
    instrument, modules = snapshots()
    with scoped_variable("TVM_COMPILE_FORCE_FALLBACK", "1"):
        compile_module(build_functions(kernel, params), "sm_90a", (instrument,))
    whole = Simulator(modules)
    case = prepare(kernel, params, FakeDevice(), 0)
    assert noticed(whole, case) == "nothing", "the kernel itself"
    score: dict[str, Counter[str]] = {}
    crashed, survivors = 0, []
    sites = whole.launches[0][1].sites
    for number, (at, variant) in enumerate(whole.launches[0][1].operations):
        kind = ".".join(variant.split(".")[:2])
        if number % EVERY_NTH.get(kind.split(".")[0], 1):
            continue
        try:
            what = noticed(Simulator(modules, drop=number), case)
        except Exception as error:
            crashed += 1
            what = f"CRASH {type(error).__name__}: {error}"
        score.setdefault(kind, Counter())[what] += 1
        if what == "nothing":
            survivors.append((variant, sites[at]))
    for kind, counts in score.items():
        print(f"{name}  {kind:40s} " + "; ".join(f"{count} {what}" for what, count in counts.items()))
    unexpected = [(v, s) for v, s in survivors if not any(v.startswith(e) for e in EXPECTED)]
    total = sum(sum(counts.values()) for counts in score.values())
    print(f"{name}: {total} mutants, {len(survivors)} survive, {len(unexpected)} of them unexpected, {crashed} crashed")
    for variant, site in survivors:
        print(f"    survivor {variant}: {site}")
    return {"mutants": total, "survivors": [f"{variant}: {site}" for variant, site in survivors], "unexpected": len(unexpected),
            "crashed": crashed, "noticed_by": {kind: dict(counts) for kind, counts in score.items()}}  # fmt: skip


def main(argv: list[str]) -> int:
    from tirx_bench.tools.environment import software

    found = {name: mutants(name) for name in argv[1:] or KERNELS}
    head = {"command": "python tests/bench/mutants.py", "date": datetime.date.today().isoformat(), "environment": software()}
    Path(argv[0]).write_text(json.dumps({**head, "kernels": found}, indent=1) + "\n")
    return int(any(f["unexpected"] or f["crashed"] for f in found.values()))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
