"""What comes in: the `Graph`, its checks, readers, data sets, splits and generators."""

from djgnn.graph.graph import Graph, Split
from djgnn.graph.splits import random_splits

__all__ = ["Graph", "Split", "random_splits"]
