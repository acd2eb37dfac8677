"""
Choosing nothing: automatic jumps and experts
=============================================

Is it better to look at the features, at the neighbours, at the edges reversed, at nodes with the
same neighbours? One would have to know the graph to choose. The default model does not choose:
each view is an *expert* with weights of its own, and held-out nodes decide how much each of them
counts.
"""

# %%
# Four graphs, one configuration
# ------------------------------
import matplotlib.pyplot as plt
import numpy as np

from djgnn import DJClassifier
from djgnn.graph import heterophilic_sbm, stochastic_block_model

blocks = np.full((4, 4), 0.004)
graphs = {
    "neighbours agree": stochastic_block_model([75] * 4, blocks + 0.05 * np.eye(4), signal=0.5),
    "a cycle of classes": stochastic_block_model(
        [75] * 4, blocks + 0.05 * np.roll(np.eye(4), 1, axis=1), signal=0.5, directed=True
    ),
    "shared hubs": heterophilic_sbm(300, signal=0.5),
    "features only": stochastic_block_model([75] * 4, np.full((4, 4), 0.01), signal=3),
}

# %%
# In the second graph most edges lead from one class to the next, so that neighbours differ, and in
# the third the neighbours are hubs of any class. The settings are the same for all four. (Setting a
# part of the labels aside, ``folds=1``, is faster than cross-fitting.) Of the hidden labels are
weights, scores = {}, {}
for name, graph in graphs.items():
    known = np.where(np.random.default_rng(1).random(graph.num_nodes) < 0.5, graph.y, -1)
    classifier = DJClassifier(folds=1, random_state=0).fit(graph, known)
    weights[name] = classifier.branch_weights_
    scores[name] = 100 * (classifier.predict(graph) == graph.y)[known < 0].mean()
    print(f"{name:18} {scores[name]:5.1f}% right")

# %%
# Which experts count
# -------------------
experts = list(dict.fromkeys(e for found in weights.values() for e in found))
table = np.array([[found.get(e, 0) for e in experts] for found in weights.values()])
fig, ax = plt.subplots(figsize=(8.5, 3.4), layout="constrained")
image = ax.imshow(table, cmap="Blues", vmin=0, vmax=max(0.5, table.max()), aspect="auto")
for (row, column), value in np.ndenumerate(table):
    if value >= 0.05:
        ax.text(
            column,
            row,
            f"{value:.2f}",
            ha="center",
            va="center",
            fontsize=8,
            color="white" if value > 0.3 else "black",
        )
ax.set_xticks(range(len(experts)), experts, rotation=45, ha="right")
ax.set_yticks(range(len(weights)), list(weights))
fig.colorbar(image, label="weight in the mixture")
plt.show()

# %%
# Jumps choose themselves, too
# ----------------------------
# With ``num_jumps="auto"``, the default, jumps look at ranks 1, 2, 3-4, 5-8, ... in the list of the
# nearest nodes in U, and shells that do not help on held-out nodes are dropped. A fixed number is
# possible too. One graph with one split cannot say which is better; :doc:`/results/designs` has the
# comparison on benchmark sets.
graph = graphs["shared hubs"]
known = np.where(np.random.default_rng(1).random(graph.num_nodes) < 0.5, graph.y, -1)
for jumps in (1, "auto"):
    options = {"experts": ("jumps", "joint")}
    classifier = DJClassifier(num_jumps=jumps, options=options, folds=1, random_state=0).fit(
        graph, known
    )
    right = 100 * (classifier.predict(graph) == graph.y)[known < 0].mean()
    print(f"num_jumps={jumps!r:6}  {right:.1f}%")
