"""
A big graph in batches
======================

Training has to keep the values of every node and branch in memory. With ``batch_size`` an epoch is
computed in parts: the same step of the same optimiser, up to rounding, with less memory and more
time. Nothing is sampled, and no edge is left out.
"""

# %%
# A larger graph
# --------------
# 20,000 nodes with 64 features in eight classes. Each class is split into communities, whose
# members point at the same hubs.
import time

import matplotlib.pyplot as plt

from djgnn.graph import heterophilic_sbm, random_splits
from djgnn.training import resolve, train
from djgnn.training.inputs import build_djgnn

graph = random_splits(
    heterophilic_sbm(20_000, num_classes=8, hub_size=40, background=1e-4, num_features=64),
    num_splits=1,
)
print(f"{graph.num_nodes:,} nodes, {graph.num_edges:,} edges")

# %%
# Whole, and in batches
# ---------------------
# One network with jumps; on the command line this is ``djgnn fit --batch-size 4096``. Dropout is
# switched off so that both runs see the same numbers.
runs = {}
for batch_size in (4096, None):
    config = resolve(
        "default", experts=(), num_jumps=4, dropout=0.0, epochs=5, batch_size=batch_size
    )
    module, inputs = build_djgnn(config, graph)
    begun = time.perf_counter()
    fitted, result = train(module, inputs, graph, 0, config.training, seed=0)
    runs[batch_size] = [record.loss for record in fitted.history]
    seconds = (time.perf_counter() - begun) / config.training.epochs
    print(f"batch_size={batch_size}: {seconds:.1f} s per epoch")

# %%
# The same losses
# ---------------
fig, ax = plt.subplots(figsize=(6, 3.4), layout="constrained")
ax.plot(runs[None], linewidth=5, alpha=0.4, label="whole graph")
ax.plot(runs[4096], marker="o", label="batches of 4096 nodes")
ax.set(xlabel="epoch", ylabel="training loss", xticks=range(len(runs[None])))
ax.legend()
plt.show()

print("largest difference:", max(abs(a - b) for a, b in zip(*runs.values(), strict=True)))

# %%
# How much memory that saves depends on the size: :doc:`/scaling` has measurements, and
# ``djgnn inspect`` estimates what a fit of your own graph will cost on your machine.
