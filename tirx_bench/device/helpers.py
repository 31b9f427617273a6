"""The kernels of helpers.cu on the current device: evict, stamp, hold, and follow a chain of loads."""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tirx_bench.model import FailedError, MissingError

LINE_BYTES = 128
CHAIN_BYTES = 4 << 20  # well inside any L2, and far more than an L1
CHAIN_LOADS = 2048
GATE_LIMIT_NS = 200_000_000  # a call that has not returned by then waits for the device
FLUSH_FACTOR = 2  # an eviction touches so many times the L2's size


class Helpers:
    """Compiled for this device by NVRTC when first used. Raises `MissingError` without cuda-bindings."""

    def __init__(self, torch: Any):
        self.torch = torch
        properties = torch.cuda.get_device_properties(torch.cuda.current_device())
        self.sms, self.l2_bytes = properties.multi_processor_count, properties.L2_cache_size
        self.arch = f"sm_{properties.major}{properties.minor}"
        self.sink = torch.zeros(1, dtype=torch.int32, device="cuda")
        self.use_current_stream()

    @functools.cached_property
    def _module(self) -> Any:
        driver, nvrtc = _bindings()
        source = Path(__file__).with_name("helpers.cu").read_bytes()
        program = _checked(nvrtc.nvrtcCreateProgram(source, b"helpers.cu", 0, [], []))
        _checked(nvrtc.nvrtcCompileProgram(program, 1, [f"--gpu-architecture={self.arch}".encode()]))
        cubin = bytearray(_checked(nvrtc.nvrtcGetCUBINSize(program)))
        _checked(nvrtc.nvrtcGetCUBIN(program, cubin))
        return _checked(driver.cuModuleLoadData(bytes(cubin)))

    def use_current_stream(self) -> None:
        """Launch on what is torch's current stream now. Asking before every launch would cost as much as the launch."""
        self.stream = self.torch.cuda.current_stream().cuda_stream

    @functools.cache  # noqa: B019  there is one of these in a process
    def _function(self, name: str) -> Launchable:
        driver, _ = _bindings()
        return Launchable(int(_checked(driver.cuModuleGetFunction(self._module, name.encode()))))

    def _launch(self, name: str, blocks: int, threads: int, *values: int) -> None:
        self._function(name).launch(blocks, threads, self.stream, values)

    @functools.cached_property
    def _other_memory(self) -> Any:
        return self.torch.zeros(FLUSH_FACTOR * self.l2_bytes, dtype=self.torch.uint8, device="cuda")

    def evict(self, flush: str) -> None:
        """Touch twice the L2's size, so that nothing that was in it before is left."""
        other = self._other_memory
        if flush == "discard":
            other.fill_(0)
            self._launch("discard_lines", 8 * self.sms, 512, other.data_ptr(), other.numel() // LINE_BYTES)
        else:
            self._launch("read_lines", 8 * self.sms, 512, other.data_ptr(), other.numel() // 16, self.sink.data_ptr())

    def forget_persisting(self) -> None:
        """No line may outlive an eviction by a persisting access policy."""
        driver, _ = _bindings()
        # A limit of 0 keeps new lines from persisting; the reset makes those that do ordinary ones.
        _checked(driver.cuCtxSetLimit(driver.CUlimit.CU_LIMIT_PERSISTING_L2_CACHE_SIZE, 0))
        _checked(driver.cuCtxResetPersistingL2Cache())

    def stamp(self, place: int) -> None:
        """Write the time in nanoseconds and the cycle counter of one SM to two 64-bit words at `place`."""
        self._launch("stamp", self.sms, 1, place)

    def load_cycles(self, flush: str | None) -> float:
        chain = self._chain
        cycles = self.torch.zeros(2, dtype=self.torch.int64, device="cuda")
        chain.sum()
        if flush is not None:
            self.evict(flush)
        self._launch("chase", 1, 1, chain.data_ptr(), 0, CHAIN_LOADS, cycles.data_ptr())
        return float(cycles[0].item()) / CHAIN_LOADS

    @functools.cached_property
    def _chain(self) -> Any:
        """One index per line, each that of the next line in a random order, so that no prefetch helps."""
        words = LINE_BYTES // 4
        order = self.torch.randperm(CHAIN_BYTES // LINE_BYTES, generator=self.torch.Generator().manual_seed(0))
        chain = self.torch.zeros(CHAIN_BYTES // 4, dtype=self.torch.int32)
        chain[order * words] = (order.roll(-1) * words).int()
        return chain.cuda()

    @functools.cached_property
    def _opened(self) -> Any:
        """Two words of host memory that the device reads: the last gate that is open, and the last that timed out."""
        return self.torch.zeros(2, dtype=self.torch.int32).pin_memory()

    def hold(self, turn: int, everywhere: bool = False) -> None:
        """Queue a kernel that waits until gate `turn` is open, turns rising from 1, or until the time limit.

        `everywhere`: it fills every SM, so that kernels on other streams wait too.
        """
        opened = self._opened.data_ptr()
        blocks, threads = (2 * self.sms, 1024) if everywhere else (1, 1)  # 2048 threads are all that an SM holds
        self._launch("gate", blocks, threads, opened, turn, GATE_LIMIT_NS, opened + 4)

    def open(self, turn: int) -> None:
        self._opened[0] = turn

    def timed_out(self) -> int:
        """The last gate that reached its time limit, 0 if none did."""
        return int(self._opened[1])

    def close(self) -> None:
        self._opened.zero_()


class Launchable:
    """A kernel of integers and pointers. Launched through ctypes with arguments laid out once: a launch through
    cuda-bindings takes five times as long, and then the host cannot keep ahead of a device that computes for 10 us."""

    MOST_ARGUMENTS = 4

    def __init__(self, function: int):
        self.function = function
        self.cells = (ctypes.c_uint64 * self.MOST_ARGUMENTS)()  # little-endian, so that a 32-bit argument is read right
        places = (ctypes.addressof(self.cells) + 8 * i for i in range(self.MOST_ARGUMENTS))
        self.pointers = (ctypes.c_void_p * self.MOST_ARGUMENTS)(*places)
        self.call = ctypes.CDLL("libcuda.so.1").cuLaunchKernel
        self.call.argtypes = [ctypes.c_void_p, *[ctypes.c_uint] * 7, *[ctypes.c_void_p] * 3]

    def launch(self, blocks: int, threads: int, stream: int, values: Sequence[int]) -> None:
        self.cells[: len(values)] = list(values)
        if code := self.call(self.function, blocks, 1, 1, threads, 1, 1, 0, stream, self.pointers, None):
            raise FailedError(f"the CUDA driver answers error {code} to a launch")


@functools.cache
def _bindings() -> tuple[Any, Any]:
    try:
        from cuda.bindings import driver, nvrtc
    except ImportError as error:
        raise MissingError(f"cuda-bindings cannot be imported: {error}", "pip install 'tirx-bench[gpu]'") from error
    return driver, nvrtc


def _checked(result: tuple[Any, ...]) -> Any:
    """The value of a call of cuda.bindings, which returns an error code first."""
    code, *values = result
    if int(code):
        raise FailedError(f"the CUDA driver answers {code}")
    return values[0] if len(values) == 1 else values or None
