"""
Your own branch in 40 lines
===========================

A *branch* embeds nodes; a network weighs its branches and classifies their concatenation. Whoever
has an idea of what else could be seen in the data writes a branch. Here is one for times of day. It
gets training, mini-batches, new nodes, checkpoints and explanations without another line.
"""

# %%
# The branch
# ----------
# A pass has two halves. ``encode`` computes what does not depend on dropout, ``forward`` the
# embedding of the rows that are asked for. Values of nodes come from the *view* alone, so that
# the same lines serve whole graphs, batches and new nodes. ``build`` may return ``None`` to leave
# the branch out.
import math

import matplotlib.pyplot as plt
import numpy as np
import torch
from torch import nn

from djgnn.graph import Graph, random_splits
from djgnn.model import djgnn
from djgnn.model.branches import BRANCHES, Branch
from djgnn.model.explain import explain
from djgnn.training import resolve, train
from djgnn.training.inputs import build_djgnn


class WaveBranch(Branch):
    """cos(X W + b), which repeats itself; the other branches have ReLU, which does not."""

    name = "wave"

    def __init__(self, in_channels, hidden_channels):
        super().__init__()
        self.weight = nn.Parameter(torch.empty(in_channels, hidden_channels))
        self.bias = nn.Parameter(torch.empty(hidden_channels))

    @classmethod
    def build(cls, config, in_channels, num_nodes):
        return cls(in_channels, config.hidden_channels)

    def reset_parameters(self, generator=None):
        nn.init.normal_(self.weight, std=2 * math.pi, generator=generator)
        nn.init.uniform_(self.bias, 0, 2 * math.pi, generator=generator)

    def encode(self, view):
        return view.features @ self.weight

    def forward(self, encoding, view, generator=None):
        return torch.cos(view.own_rows(encoding.parts[self.name]) + self.bias)


# %%
# Data with a rhythm
# ------------------
# Messages that were sent over five days. Their class depends on the hour: night, office hours,
# evening. The one feature is the time since the first message, in days. Answers are edges, to
# messages of any class.
rng = np.random.default_rng(0)
n = 600
day = np.sort(rng.uniform(0, 5, n))
y = np.digitize(24 * day % 24, (8, 18))
edges = np.unique(np.stack([rng.integers(0, n, 4 * n), rng.integers(0, n, 4 * n)]), axis=1)
x = day[:, None].astype(np.float32)
graph = random_splits(Graph(edges, n, x=x, y=y), num_splits=1)

# %%
# With and without it
# -------------------
# A branch is used once it stands in the list of branches.
config = resolve("default", experts=(), num_jumps=2, hidden_channels=32, epochs=300)


def fit():
    """One network, trained on the first split."""
    module, inputs = build_djgnn(config, graph)
    return *train(module, inputs, graph, 0, config.training, seed=0), inputs


_, before, _ = fit()
djgnn.BRANCHES = [*BRANCHES, WaveBranch]
fitted, after, inputs = fit()
print(f"without: {before.test:.1f}%, with it: {after.test:.1f}%")

# %%
# What it adds
# ------------
# Explanations know it, too: what each branch adds to the logits of a node.
found = explain(fitted.module, inputs, graph, int(graph.split(0).test[0]))
names = [part.branch for part in found.branches]
fig, ax = plt.subplots(figsize=(7, 3.4), layout="constrained")
place = np.arange(len(names))
for k, label in enumerate(found.logits):
    values = [part.contributions[label] for part in found.branches]
    ax.bar(place + 0.28 * (k - 1), values, 0.27, label=f"class {label}")
ax.axhline(0, color="black", linewidth=0.8)
ax.set_xticks(place, names, rotation=30, ha="right")
ax.set(ylabel="added to the logit", title=f"a node of class {found.label}")
ax.legend()
plt.show()

djgnn.BRANCHES = BRANCHES

# %%
# To contribute a branch, put the class into ``model/branches/NAME.py``, append it to
# ``BRANCHES``, and add a switch to ``ModelConfig``; the page on the architecture has the recipe,
# and the tests to copy.
