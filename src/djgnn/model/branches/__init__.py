"""The branches of the model, one file each, and the list of them.

To add one: write its file, append its class to `BRANCHES`, and test it. Whole passes, mini-batches,
processes, new nodes, explanations and checkpoints take it from here.
"""

from djgnn.model.branches.base import Branch
from djgnn.model.branches.deep import DeepBranch
from djgnn.model.branches.diffusion import DiffusionBranch
from djgnn.model.branches.homophilic import HomophilicBranch
from djgnn.model.branches.hops import HopBranch
from djgnn.model.branches.jumps import JumpBranches
from djgnn.model.branches.mix import MixBranch
from djgnn.model.branches.structure import StructureBranch

BRANCHES: list[type[Branch]] = [
    JumpBranches,
    HomophilicBranch,
    StructureBranch,
    HopBranch,
    DiffusionBranch,
    DeepBranch,
    MixBranch,
]
"""In the order of the mixing weights."""

__all__ = [
    "BRANCHES",
    "Branch",
    "DeepBranch",
    "DiffusionBranch",
    "HomophilicBranch",
    "HopBranch",
    "JumpBranches",
    "MixBranch",
    "StructureBranch",
]
