"""What every result carries with it: versions, machine, memory."""

import os
import platform
import re
import sys
from contextlib import suppress
from importlib import metadata
from pathlib import Path
from typing import Any

import torch

from djgnn import __version__

_PACKAGES = ("torch", "torch_geometric", "numpy", "scipy", "scikit-learn")
_FURTHER = (
    "polars", "msgspec", "safetensors", "plotly", "typer", "rich", "pyyaml", "jinja2", "defusedxml",
    "threadpoolctl", "triton", "optuna", "networkx", "pandas",
)  # fmt: skip


def versions() -> dict[str, str]:
    """Versions of this package, of what it computes with, and of Python."""
    return {
        "python": platform.python_version(),
        "platform": f"{sys.platform}-{platform.machine()}",
        "djgnn": __version__,
        **{name: metadata.version(name) for name in _PACKAGES},
    }


def environment() -> dict[str, Any]:
    """What a bug report needs: versions of all packages, the machine; no path and no user name."""
    further: dict[str, str | None] = dict.fromkeys(_FURTHER)
    for name in _FURTHER:
        with suppress(metadata.PackageNotFoundError):
            further[name] = metadata.version(name)
    gpus = [torch.cuda.get_device_name(k) for k in range(torch.cuda.device_count())]
    return {
        **versions(),
        **further,
        "system": platform.platform(),
        "cpus": os.cpu_count(),
        "threads": torch.get_num_threads(),
        "cuda": torch.version.cuda,
        "gpus": gpus,
    }


class PeakMemory:
    """Peak memory in MiB since construction: of the GPU if one is used, else of this process.

    On Linux the process's high-water mark is reset first, so that what was loaded before does not
    count; elsewhere the mark of the whole process is all there is.
    """

    def __init__(self, device: str = "cpu") -> None:
        self.device = device
        if device == "cuda":
            torch.cuda.reset_peak_memory_stats()
            return
        with suppress(OSError):
            Path("/proc/self/clear_refs").write_text("5")
        self.before = process_mib("VmRSS")

    def mib(self) -> float:
        """Peak since construction, above what was in use then."""
        if self.device == "cuda":
            return float(torch.cuda.max_memory_allocated()) / 2**20
        return max(0.0, process_mib("VmHWM") - self.before)


def process_mib(key: str) -> float:
    """Memory of this process in MiB: ``VmRSS`` is what it has now, ``VmHWM`` the most it had.

    They are lines of /proc/self/status; where there is no such file, both are the most.
    """
    with suppress(OSError):
        found = re.search(rf"^{key}:\s+(\d+) kB", Path("/proc/self/status").read_text(), re.M)
        if found:
            return int(found[1]) / 1024
    import resource

    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
