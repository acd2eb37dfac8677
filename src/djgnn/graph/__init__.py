"""What comes in: the `Graph`, its checks, readers, data sets, splits and generators.

Importing it imports neither torch nor polars nor PyG: readers and generators come on first use.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from djgnn.graph.graph import Graph, Split
from djgnn.graph.new_nodes import Arrivals, arrivals, check_related
from djgnn.graph.npz import read_npz, write_npz
from djgnn.graph.registry import Card, available, find, known, load
from djgnn.graph.splits import all_held_out, cross_folds, random_splits
from djgnn.graph.table_rules import reading_of

if TYPE_CHECKING:
    from djgnn.graph.graphml import read_graphml, write_graphml
    from djgnn.graph.sbm import heterophilic_sbm, stochastic_block_model
    from djgnn.graph.table_files import write_tables
    from djgnn.graph.tables import from_frames, read_tables

_HOME = {
    "from_frames": "tables",
    "heterophilic_sbm": "sbm",
    "read_graphml": "graphml",
    "read_tables": "tables",
    "stochastic_block_model": "sbm",
    "write_graphml": "graphml",
    "write_tables": "table_files",
}

__all__ = [
    "Arrivals",
    "Card",
    "Graph",
    "Split",
    "all_held_out",
    "arrivals",
    "available",
    "check_related",
    "cross_folds",
    "find",
    "from_frames",
    "heterophilic_sbm",
    "known",
    "load",
    "random_splits",
    "read_graphml",
    "read_npz",
    "read_tables",
    "reading_of",
    "stochastic_block_model",
    "write_graphml",
    "write_npz",
    "write_tables",
]


def __getattr__(name: str) -> Any:
    """Import a reader, a writer or a generator on first use, and polars with the readers."""
    if name in _HOME:
        return getattr(import_module(f"djgnn.graph.{_HOME[name]}"), name)
    raise AttributeError(f"module 'djgnn.graph' has no attribute '{name}'")
