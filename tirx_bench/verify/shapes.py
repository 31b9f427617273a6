"""Problems just below, at and just above a kernel's tile boundaries."""

from __future__ import annotations

from tirx_bench.model import Kernel, Params, UsageError, Workload

LEAST_SIZE = 16  # a smaller whole number among the parameters is a flag or a count, not a size
DEFAULT_BOUNDARIES = (64, 128, 256)  # of a kernel that declares no tiles
KINDS = 3  # below, at, above


def boundary_workloads(kernel: Kernel, workload: Workload, tunables: Params) -> list[Workload]:
    """Few problems in which every size of `workload` is below, at and above every boundary, as near as the kernel accepts.

    The sizes are rotated against each other (a Latin square), and the least problem comes first.
    """
    sizes = [n for n, v in workload.params.items() if isinstance(v, int) and not isinstance(v, bool) and v >= LEAST_SIZE]
    near = _Near(kernel, workload, tunables)
    wanted = [{name: near.at_least(name, 1) for name in sizes}]
    for boundary in _boundaries(kernel, workload, tunables):
        choices = {name: near.around(name, boundary) for name in sizes}
        for turn in range(KINDS):
            wanted.append({name: choices[name][(i + turn) % KINDS] for i, name in enumerate(sizes)})
    found: dict[str, Workload] = {}
    for values in wanted:
        params = {**workload.params, **values}
        shape = Workload(",".join(f"{n}={v}" for n, v in params.items()), params)
        if near.accepts(shape):
            found.setdefault(shape.label, shape)
    return list(found.values())


def _boundaries(kernel: Kernel, workload: Workload, tunables: Params) -> list[int]:
    if kernel.tiles is None:
        return list(DEFAULT_BOUNDARIES)
    declared = kernel.tiles_for(kernel.params(workload, tunables)).values()
    return sorted({extent for tiles in declared for tile in tiles for extent in tile.shape if extent >= LEAST_SIZE})


class _Near:
    """Which values of one size a kernel accepts, the others being the workload's."""

    def __init__(self, kernel: Kernel, workload: Workload, tunables: Params):
        self.kernel, self.workload, self.tunables = kernel, workload, tunables

    def accepts(self, workload: Workload) -> bool:
        try:
            self.kernel.refuse(workload, self.tunables)
        except UsageError:
            return False
        return True

    def _takes(self, name: str, value: int) -> bool:
        return self.accepts(Workload("tried", {**self.workload.params, name: value}))

    def at_least(self, name: str, start: int) -> int:
        """The least value that is accepted from `start` to the workload's own, which is."""
        own = int(self.workload.params[name])
        return next((v for v in range(start, own) if self._takes(name, v)), own)

    def around(self, name: str, boundary: int) -> tuple[int, int, int]:
        """The nearest value below `boundary`, itself, and the nearest above; where there is none, the next that there is."""
        above = self.at_least(name, boundary + 1)
        at = boundary if self._takes(name, boundary) else above
        below = next((v for v in range(boundary - 1, 0, -1) if self._takes(name, v)), at)
        return below, at, above
