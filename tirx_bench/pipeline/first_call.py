"""What the first call costs: fresh processes, each stage apart."""

from __future__ import annotations

from dataclasses import dataclass

from tirx_bench.pipeline.child import GpuProcess
from tirx_bench.pipeline.plan import Job, Progress, need_device, plan, quiet
from tirx_bench.pipeline.request import Request, Version

PROCESSES = 5


@dataclass(frozen=True)
class FirstCall:
    """Seconds of every stage, one of each fresh process, in the order of the stages."""

    kernel: str
    workload: str
    arch: str
    gpu: str
    stages_s: dict[str, tuple[float, ...]]


def first_call_job(job: Job, progress: Progress) -> FirstCall:
    """Raises `MissingError` without a device for the kernel."""
    planned = plan(job)
    need_device(planned, "bench --first-call")
    version = Version(planned.entry.spec, planned.tunables, planned.arch)
    request = Request("first-call", version, planned.workload, job.policy, str(job.out.absolute()))
    answers = []
    for number in range(PROCESSES):
        progress(f"fresh process {number + 1} of {PROCESSES}")
        with GpuProcess(job.device) as process:
            answers.append(process.perform(request, job.timeout_s, quiet))
    stages = {name: tuple(answer.stages[name] for answer in answers) for name in answers[0].stages}
    gpu = str(answers[0].environment.get("gpu"))
    return FirstCall(planned.kernel.name, planned.workload.label, planned.arch, gpu, stages)
