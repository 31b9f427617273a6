"""The measured peak of a card: a copy and a matrix product on it, which a kernel's time is held against."""

from __future__ import annotations

import statistics

from tirx_bench.device.cuda import CudaDevice
from tirx_bench.model import Peak

COPY_BYTES = 2**30
MATRIX = 8192


def measure_peak(device: CudaDevice, dtype: str) -> Peak:
    """TB/s of a 1 GiB device copy (read and written) and TFLOP/s of an 8192^3 torch.mm on random data, medians of ten."""
    copy_us = statistics.median(device.copy_us(COPY_BYTES))
    matmul_us = statistics.median(device.matmul_us(MATRIX, dtype))
    return Peak(
        source=f"measured on this card: copy of 1 GiB, torch.mm {MATRIX}^3 {dtype}",
        tflops=2 * MATRIX**3 / matmul_us / 1e6,
        tb_per_s=2 * COPY_BYTES / copy_us / 1e6,
    )
