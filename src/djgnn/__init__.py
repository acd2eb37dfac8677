"""Node classification when neighbours disagree: Diffusion-Jump GNNs, exact, sparse and honest."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "1.0.0"

if TYPE_CHECKING:
    from djgnn.errors import InputError as InputError
    from djgnn.estimator import DJClassifier as DJClassifier
    from djgnn.graph import Graph as Graph
    from djgnn.model import DJGNN as DJGNN

_HOME = {
    "DJClassifier": "djgnn.estimator",
    "DJGNN": "djgnn.model",
    "Graph": "djgnn.graph",
    "InputError": "djgnn.errors",
}

__all__ = ["DJGNN", "DJClassifier", "Graph", "InputError", "__version__"]


def __getattr__(name: str) -> Any:
    """Import a public name from its room on first use, so that `import djgnn` costs nothing."""
    if name in _HOME:
        return getattr(import_module(_HOME[name]), name)
    raise AttributeError(f"module 'djgnn' has no attribute '{name}'")


def __dir__() -> list[str]:
    return sorted(__all__)
