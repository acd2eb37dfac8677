"""Who is near whom in U: twin classes, exact search engines, rank lists."""

from djgnn.jumps.arrivals import arrival_ranks
from djgnn.jumps.engines import ENGINES, choose_engine
from djgnn.jumps.lazy import LazyRanks
from djgnn.jumps.ranks import JumpHierarchy, dense_rank_lists, rank_lists
from djgnn.jumps.some import class_ranks
from djgnn.jumps.tiles import SearchMemory
from djgnn.jumps.twins import TwinClasses, single_classes, twin_classes

__all__ = [
    "ENGINES",
    "JumpHierarchy",
    "LazyRanks",
    "SearchMemory",
    "TwinClasses",
    "arrival_ranks",
    "choose_engine",
    "class_ranks",
    "dense_rank_lists",
    "rank_lists",
    "single_classes",
    "twin_classes",
]
