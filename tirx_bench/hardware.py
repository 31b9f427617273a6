"""What the hardware allows: limits of a multiprocessor by architecture, data-sheet peaks by card. Standard library only."""

from __future__ import annotations

import re
from dataclasses import dataclass

from tirx_bench.model import Peak, Resources, UsageError, unknown

KIB = 1024
MAX_THREADS = 1024  # of a block, on every architecture


@dataclass(frozen=True)
class Multiprocessor:
    """Limits of one SM. Source: CUDA C++ Programming Guide 13.0, "Compute Capabilities", and cuda_occupancy.h."""

    warps: int
    blocks: int
    smem_bytes: int
    block_smem_bytes: int
    registers: int = 64 * KIB
    register_unit: int = 256  # registers are given to a warp in this unit
    smem_unit: int = 128
    block_reserved_smem_bytes: int = KIB
    barriers: int = 0  # named barriers that the blocks share; 0 where they set no limit
    schedulers: int = 4  # warps are given registers evenly over the schedulers


MULTIPROCESSORS = {
    "80": Multiprocessor(warps=64, blocks=32, smem_bytes=164 * KIB, block_smem_bytes=163 * KIB),
    "86": Multiprocessor(warps=48, blocks=16, smem_bytes=100 * KIB, block_smem_bytes=99 * KIB),
    "89": Multiprocessor(warps=48, blocks=24, smem_bytes=100 * KIB, block_smem_bytes=99 * KIB),
    "90": Multiprocessor(warps=64, blocks=32, smem_bytes=228 * KIB, block_smem_bytes=227 * KIB, barriers=64),
    "100": Multiprocessor(warps=64, blocks=32, smem_bytes=228 * KIB, block_smem_bytes=227 * KIB, barriers=64),
    "103": Multiprocessor(warps=64, blocks=32, smem_bytes=228 * KIB, block_smem_bytes=227 * KIB, barriers=64),
    "120": Multiprocessor(warps=48, blocks=24, smem_bytes=100 * KIB, block_smem_bytes=99 * KIB, barriers=24),
}


def capability(arch: str) -> str:
    """The compute capability's digits of an arch name: sm_90a -> 90. Raises `UsageError` on anything else."""
    match = re.fullmatch(r"sm_(\d{2,3})[af]?", arch)
    if not match:
        raise UsageError(f"{arch!r} is not an architecture", "write it as sm_90a")
    return match.group(1)


@dataclass(frozen=True)
class Occupancy:
    """Blocks and warps that fit on one SM at once, by the resource that allows fewest."""

    blocks: int
    warps: int
    max_warps: int
    limits: dict[str, int]

    @property
    def fraction(self) -> float:
        return self.warps / self.max_warps

    @property
    def limiter(self) -> str:
        least = min(self.limits.values())
        return " and ".join(name for name, blocks in self.limits.items() if blocks == least)


def occupancy(resources: Resources, arch: str) -> Occupancy | None:
    """Theoretical occupancy of a function on `arch`; None where the limits of that arch are not in the table."""
    sm = MULTIPROCESSORS.get(capability(arch))
    if sm is None or not resources.threads:
        return None
    warps = -(-resources.threads // 32)
    per_warp = _round_up(resources.registers * 32, sm.register_unit)
    by_registers = sm.registers // sm.schedulers // per_warp * sm.schedulers // warps if per_warp else sm.blocks
    smem = _round_up(resources.smem_bytes + sm.block_reserved_smem_bytes, sm.smem_unit)
    limits = {
        "registers": by_registers,
        "shared memory": sm.smem_bytes // smem,
        "warps": sm.warps // warps if resources.threads <= MAX_THREADS else 0,
        "blocks": sm.blocks,
    }
    if sm.barriers and resources.barriers > 1:
        limits["barriers"] = sm.barriers // resources.barriers
    blocks = min(limits.values())
    return Occupancy(blocks, blocks * warps, sm.warps, limits)


def _round_up(value: int, unit: int) -> int:
    return -(-value // unit) * unit


@dataclass(frozen=True)
class Card:
    """Data-sheet peaks, dense, without sparsity: TFLOP/s by dtype, TB/s of device memory."""

    name: str
    arch: str
    sms: int
    tb_per_s: float
    tflops: dict[str, float]
    source: str

    def peak(self, dtype: str) -> Peak | None:
        """The peak for arithmetic in `dtype`; None if the data sheet has no rate for it."""
        return Peak(f"{self.name} data sheet", self.tflops[dtype], self.tb_per_s) if dtype in self.tflops else None


def _rates(bf16: float, fp8: float, fp32: float, fp64: float) -> dict[str, float]:
    return {
        "bfloat16": bf16,
        "float16": bf16,
        "float8_e4m3fn": fp8,
        "float8_e5m2": fp8,
        "float32": fp32,
        "float64": fp64,
    }


CARDS = {
    card.name: card
    for card in (
        Card("H200 SXM", "sm_90a", 132, 4.8, _rates(989.4, 1978.9, 66.9, 66.9), "NVIDIA H200 data sheet"),
        Card("H100 SXM", "sm_90a", 132, 3.35, _rates(989.4, 1978.9, 66.9, 66.9), "NVIDIA H100 data sheet"),
        Card("H100 PCIe", "sm_90a", 114, 2.0, _rates(756.4, 1512.8, 51.2, 51.2), "NVIDIA H100 data sheet"),
        Card("B200", "sm_100a", 148, 8.0, _rates(2250.0, 4500.0, 75.0, 37.0), "NVIDIA HGX B200 data sheet"),
    )
}
DEFAULT_CARDS = {"90": "H200 SXM", "100": "B200"}


def find_card(name: str | None, arch: str) -> Card | None:
    """The card named, or the one assumed for `arch`; None if none is. Raises `UsageError` on an unknown name."""
    if name is None:
        return CARDS.get(DEFAULT_CARDS.get(capability(arch), ""))
    if name not in CARDS:
        raise unknown("card", name, CARDS)
    return CARDS[name]


def card_of_device(device_name: str) -> Card | None:
    """The card that a driver's device name means, such as "NVIDIA H200"; None if it is not in the table."""
    tail = device_name.removeprefix("NVIDIA ").replace(" 80GB HBM3", "")
    guesses = {"H200": "H200 SXM", "H100": "H100 SXM", "H100 PCIe": "H100 PCIe", "B200": "B200"}
    return CARDS.get(guesses.get(tail, ""))
