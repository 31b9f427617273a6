"""Run with a stub libcuda and an artifact's folder: what the compile hook serves, refuses and restores, as JSON."""

import json
import os
import sys
from pathlib import Path

import tvm
import tvm_ffi

from tirx_bench.catalog import find
from tirx_bench.compile import build_functions, compile_module, read
from tirx_bench.device import absent, present_arch
from tirx_bench.device.hook import NAME, serving
from tirx_bench.model import FailedError

assert tvm.support.nvcc
artifact = read(Path(sys.argv[1]))
kernel = find(sys.argv[2]).kernel
functions = build_functions(kernel, artifact.workload.params)
other = build_functions(kernel, {"n": 512})
said = {"absent": absent(), "arch": present_arch()}


def sentinel(code):
    return b"the hook that was there before"


def restored():
    return bytes(tvm_ffi.get_global_func(NAME)("")) == sentinel("")


def refusal(work):
    try:
        with serving(artifact):
            work()
    except FailedError as error:
        return {"message": error.message, "hint": error.hint, "restored": restored()}
    return None


tvm_ffi.register_global_func(NAME, sentinel, override=True)
with serving(artifact):
    inner, asked = tvm_ffi.get_global_func(NAME), []

    def counting(code):
        asked.append(code)
        return inner(code)

    tvm_ffi.register_global_func(NAME, counting, override=True)
    executable = compile_module(functions, artifact.arch)
said["asked"] = [code == Path(artifact.folder, "kernel.cu").read_text() for code in asked]
said["restored"] = restored()
library = Path(sys.argv[3])
executable.export_library(str(library))
said["exported"] = Path(artifact.folder, "kernel.cubin").read_bytes() in library.read_bytes()
said["other"] = refusal(lambda: compile_module(other, artifact.arch))
said["interrupted"] = refusal(lambda: (_ for _ in ()).throw(FailedError("something else")))
said["nothing"] = refusal(lambda: None)
os.environ["TVM_COMPILE_FORCE_FALLBACK"] = "1"
said["fallback"] = refusal(lambda: compile_module(functions, artifact.arch))
print(json.dumps(said))
