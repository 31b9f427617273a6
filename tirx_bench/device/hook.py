"""The compile hook: TVM loads exactly the cubin that the artifact holds, or nothing.

With a driver present, tvm.compile asks the process-wide function `tvm_callback_cuda_compile` for the binary of each
CUDA text it generated. While `serving` is active the answer is the artifact's cubin, found by the text's hash.
"""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Iterator
from pathlib import Path

from tirx_bench.model import Artifact, FailedError

NAME = "tvm_callback_cuda_compile"


@contextlib.contextmanager
def serving(artifact: Artifact) -> Iterator[None]:
    """Answer TVM with the artifact's cubin inside the block, and restore the old hook after it.

    Raises `FailedError` when TVM generated another text than the artifact's, or loaded something without asking.
    """
    import tvm
    import tvm_ffi

    assert tvm.support.nvcc  # registers the hook that is restored below
    before = tvm_ffi.get_global_func(NAME)
    served: list[str] = []
    refused: list[FailedError] = []

    def answer(code: str) -> bytes:
        digest = hashlib.sha256(code.encode()).hexdigest()
        if digest != artifact.source_sha256:
            refused.append(FailedError(
                f"TVM generated another CUDA text ({digest[:12]}) than the artifact's ({artifact.source_sha256[:12]})",
                "the build does not give the same PrimFunc twice, or TVM changed since: compile again",
            ))  # fmt: skip
            raise refused[0]
        served.append(digest)
        return Path(artifact.folder, "kernel.cubin").read_bytes()

    tvm_ffi.register_global_func(NAME, answer, override=True)
    try:
        yield
    except Exception as error:
        if refused:  # TVM makes an error of its own of what its callback raises
            raise refused[0] from error
        raise
    finally:
        tvm_ffi.register_global_func(NAME, before, override=True)
    if not served:
        raise FailedError(
            "TVM did not ask for the binary, so what it would load is not the artifact",
            "unset TVM_COMPILE_FORCE_FALLBACK; a CUDA driver must be installed",
        )
