"""Peak memory of this process, without imports that would add to it."""

from pathlib import Path

__all__ = ["peak_gigabytes"]


def peak_gigabytes() -> float:
    """Peak resident memory, as Linux reports it; `getrusage` would count the parent's memory at the fork."""
    status = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
    return int(status["VmHWM"].split()[0]) * 1024 / 1e9
