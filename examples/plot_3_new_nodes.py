"""
New nodes next week
===================

A model is trained today. Next week nodes arrive, with edges to known nodes and among themselves.
They are classified without retraining, and the predictions of the known nodes do not change.
"""

# %%
# Today and next week
# -------------------
# Next week's graph has 60 more nodes. Known nodes are recognised by their names.
import matplotlib.pyplot as plt
import numpy as np

from djgnn import DJClassifier, Graph
from djgnn.graph import heterophilic_sbm

later = heterophilic_sbm(500, random_state=3)
n = later.num_nodes - 60
names = later.names()
inside = (later.edge_index < n).all(axis=0)
today = Graph(later.edge_index[:, inside], n, x=later.x[:n], y=later.y[:n], node_names=names[:n])
print(f"today {n} nodes, next week {later.num_nodes - n} more and {(~inside).sum()} edges more")

# %%
# Fit today, predict next week
# ----------------------------
known = np.where(np.arange(n) % 2 == 0, today.y, -1)
classifier = DJClassifier(random_state=0).fit(today, known)
before = classifier.predict_proba(today)

new = classifier.predict_proba(later)
print("answers are for the new nodes alone:", new.shape)
print("known nodes keep theirs:", np.array_equal(before, classifier.predict_proba(today)))

# %%
# How good are they?
# ------------------
# A new node has a position :math:`u = \tanh(a W + b)`, which needs only its row *a* of edges to
# known nodes. The more of them it has, the better its position is known.
truth = later.y[n:]
right = new.argmax(axis=1) == truth
source, target = later.edge_index[:, ~inside]
edges = np.bincount(source[(source >= n) & (target < n)] - n, minlength=60)
unknown = known < 0
print(f"known graph, labels hidden: {(before.argmax(axis=1) == today.y)[unknown].mean():.1%}")
print(f"new nodes: {right.mean():.1%}")

# %%
# What if only some of a new node's edges are known yet? We leave out a part of them.
rng = np.random.default_rng(0)
shares = (0.0, 0.25, 0.5, 0.75, 1.0)
scores = []
for share in shares:
    kept = inside | (rng.random(inside.size) < share)
    partial = Graph(later.edge_index[:, kept], later.num_nodes, x=later.x, node_names=names)
    scores.append(100 * (classifier.predict(partial) == truth).mean())

fig, ax = plt.subplots(figsize=(6, 3.2), layout="constrained")
ax.plot([100 * share for share in shares], scores, marker="o")
ax.set(
    xlabel="edges of the new nodes that are known, %", ylabel="new nodes right, %", ylim=(0, 100)
)
plt.show()

# %%
# In this graph the classes are in the edges, so that is what the model relies on, and every edge of
# a new node counts. Once many nodes have arrived, fit again to learn from their edges and labels
# too.
