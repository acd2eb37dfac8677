"""Who is near whom in U: twin classes, exact search engines, rank lists."""

from djgnn.jumps.engines import ENGINES, choose_engine
from djgnn.jumps.ranks import JumpHierarchy, arrival_ranks, rank_lists
from djgnn.jumps.tiles import SearchMemory
from djgnn.jumps.twins import TwinClasses, single_classes, twin_classes

__all__ = [
    "ENGINES",
    "JumpHierarchy",
    "SearchMemory",
    "TwinClasses",
    "arrival_ranks",
    "choose_engine",
    "rank_lists",
    "single_classes",
    "twin_classes",
]
