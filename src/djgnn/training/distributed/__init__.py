"""Training over many processes: rows of the graph are shared out, networks are the same on all."""

from djgnn.training.distributed.group import Group, join

__all__ = ["Group", "join"]
