"""Training over many processes: rows of the graph are shared out, weights are the same on all."""

from djgnn.training.distributed.group import Group, join
from djgnn.training.distributed.operators import ShardOperators, distributed_djgnn
from djgnn.training.distributed.shard import Shard

__all__ = ["Group", "Shard", "ShardOperators", "distributed_djgnn", "join"]
