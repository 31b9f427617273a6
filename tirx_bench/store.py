"""Records, failing cases and measured peaks as JSON files under the output folder, and back."""

from __future__ import annotations

import hashlib
import json
import math
import os
import re
from pathlib import Path
from typing import Any

from tirx_bench.model import FailingCase, Peak, Record, TimingPolicy, UsageError, WorkbenchError
from tirx_bench.serial import from_plain, to_plain

FORMAT = 3  # 2: samples with time and clock, statuses, operations; 3: attempts and controls of a verification
CASE_FORMAT = 1
LONGEST_LABEL = 150  # file systems take names of 255 bytes


def file_label(text: str) -> str:
    """The text as a part of a file's name."""
    return re.sub(r"[^\w.-]+", "_", text, flags=re.ASCII)[:LONGEST_LABEL]


def write_record(record: Record, out: Path) -> Path:
    """Write a record under `out`/records; its name sorts by time. Raises `UsageError` when it cannot be written."""
    stamp = re.sub(r"[^0-9T]", "", record.created)
    label = file_label(f"{record.kernel}-{record.workload.label}")
    return _write(out.absolute() / "records" / f"{stamp}-{label}-{os.getpid()}.json", {"format": FORMAT, **to_plain(record)})


def read_record(path: Path) -> Record:
    """Raises `UsageError` when the file is absent, cut short, not a record, or of a newer format."""
    data = _read(path)
    version = data.pop("format", None) if isinstance(data, dict) else None
    if not isinstance(version, int):
        raise UsageError(f"{path} is not a record of tirx-bench")
    if version != FORMAT:
        hint = "upgrade tirx-bench" if version > FORMAT else "measure again"
        raise UsageError(f"{path} has record format {version}; this version reads {FORMAT}", hint)
    try:
        return from_plain(Record, data, str(path))
    except WorkbenchError as error:  # a value that does not construct knows no file
        raise UsageError(error.message if str(path) in error.message else f"{path}: {error.message}", error.hint) from error


def write_case(case: FailingCase, out: Path) -> Path:
    """Write a failing case under `out`/cases; the same case has the same name."""
    data = to_plain(case)
    digest = hashlib.sha256(json.dumps(data, sort_keys=True).encode()).hexdigest()[:12]
    name = file_label(case.spec.rpartition("/")[2])
    return _write(out.absolute() / "cases" / f"{name}-{digest}.json", {"format": CASE_FORMAT, **data})


def read_case(path: Path) -> FailingCase:
    """Raises `UsageError` when the file is absent, cut short, not a case, or of another format."""
    data = _read(path)
    if not isinstance(data, dict) or data.pop("format", None) != CASE_FORMAT or "checks" not in data:
        raise UsageError(f"{path} is not a failing case of format {CASE_FORMAT}", "`tirx-bench verify` writes one when it fails")
    return from_plain(FailingCase, data, str(path))


def records(out: Path) -> list[Path]:
    """The record files under `out`, oldest first."""
    return sorted((out / "records").glob("*.json"))


def write_peak(out: Path, uuid: str, dtype: str, peak: Peak) -> Path:
    return _write(_peak_path(out, uuid, dtype), to_plain(peak))


def read_peak(out: Path, uuid: str, dtype: str) -> Peak | None:
    """The peak kept for a card; None if there is none, or none that can be read, so that it is measured again."""
    try:
        return from_plain(Peak, _read(_peak_path(out, uuid, dtype)))
    except UsageError:
        return None


def write_noise_floor(out: Path, uuid: str, policy: TimingPolicy, floor: float) -> Path:
    return _write(_noise_path(out, uuid, policy), {"noise_floor": floor})


def read_noise_floor(out: Path, uuid: str, policy: TimingPolicy) -> float | None:
    """The floor kept for a card, timer and cache policy; None if there is none, or none that can be read."""
    try:
        floor = _read(_noise_path(out, uuid, policy))["noise_floor"]
    except (UsageError, KeyError, TypeError):
        return None
    return float(floor) if isinstance(floor, int | float) and 0 <= floor < math.inf else None


def _noise_path(out: Path, uuid: str, policy: TimingPolicy) -> Path:
    parts = [uuid, policy.timer, policy.cache, *([policy.flush] if policy.cache == "cold" else [])]
    parts += [*([f"{policy.calls}-calls"] if policy.calls > 1 else []), *(["gate"] if policy.gate else [])]
    return out.absolute() / "peaks" / f"{'-'.join(parts)}-noise.json"


def _peak_path(out: Path, uuid: str, dtype: str) -> Path:
    return out.absolute() / "peaks" / f"{uuid}-{dtype}.json"


def _read(path: Path) -> Any:
    try:
        return json.loads(path.read_text())
    except OSError as error:
        raise UsageError(f"cannot read {path}: {error.strerror}") from error
    except (ValueError, RecursionError) as error:
        raise UsageError(f"{path} is cut short or not JSON: {error}") from error


def _lines(data: Any) -> str:
    """JSON with one line for each innermost object: a sample is a line, and a record a third of the size."""
    text = json.dumps(data, indent=1, allow_nan=False)
    return re.sub(r"\{\n\s+[^{}\[\]]*?\n\s+\}", lambda match: re.sub(r"\n\s+", " ", match[0]), text) + "\n"


def _write(path: Path, data: Any) -> Path:
    """Complete or absent: written beside its place and renamed."""
    staging = path.with_suffix(f".{os.getpid()}.tmp")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            staging.write_text(_lines(data))
            staging.replace(path)
        finally:
            staging.unlink(missing_ok=True)
    except OSError as error:
        raise UsageError(f"cannot write {path}: {error.strerror}", "choose another folder with --out") from error
    return path
