"""out[i] = a[i] * b[i] + c[n - 1 - i] in FP32 from bf16 inputs; the products of a block pass through shared memory.

Fault: the shared stage is bf16, so a product is rounded once more before the sum: an error of up to 2**-8 of the product,
which a tolerance made for bf16 outputs would accept.
"""

from parts_simt import SETTINGS

from tirx_bench import Constraint, Kernel, Tolerance, Workload

CLASS = "numeric"
FAULT = "products are staged in bf16 and so rounded once more before they are used"
DETECTORS = ("numeric", "static", "simulator")


def build(n, faulty):
    from tvm.script import tirx as T

    staged = "bfloat16" if faulty else "float32"

    @T.prim_func
    def multiply_add(
        a: T.Buffer((n,), "bfloat16"), b: T.Buffer((n,), "bfloat16"),
        c: T.Buffer((n,), "bfloat16"), out: T.Buffer((n,), "float32"),
    ):  # fmt: skip
        T.device_entry()
        block = T.cta_id([n // 128])
        thread = T.thread_id([128])
        stage = T.alloc_buffer((128,), staged, scope="shared")
        stage[thread] = T.cast(T.cast(a[block * 128 + thread], "float32") * T.cast(b[block * 128 + thread], "float32"), staged)
        T.cuda.cta_sync()
        mirror = T.meta_var(127 - thread)
        out[block * 128 + mirror] = T.cast(stage[mirror], "float32") + T.cast(c[n - 1 - block * 128 - mirror], "float32")

    return multiply_add


def reference(a, b, c, n):
    return {"out": a * b + c[list(range(n - 1, -1, -1))]}


KERNEL = Kernel(
    name="numeric_rounded_stage",
    workloads=(Workload("4096", {"n": 4096}),),
    build=build,
    inputs=lambda n, rng: {name: rng.normal((n,), "bfloat16") for name in ("a", "b", "c")},
    outputs=lambda n: {"out": ((n,), "float32")},
    reference=reference,
    tolerance=Tolerance(rtol=1e-6, atol=1e-6),  # the product is exact in FP32
    constraints=(Constraint("n % 128 == 0", "no tail"),),
    **SETTINGS,
)
