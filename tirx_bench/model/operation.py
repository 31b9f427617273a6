"""What an implementation does when it is called."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Operation:
    """What one call of an implementation does on the device, as a trace shows, and what it is made with."""

    implementation: str
    kernels: tuple[str, ...]
    streams: int
    library: str
    workspace_bytes: int | None
    tuning: str
