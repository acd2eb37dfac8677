"""
Is my graph heterophilic, and does it help?
===========================================

Three graphs with the same features: one in which neighbours agree, one in which they disagree, and
one whose edges have nothing to do with the classes. Two questions about each: how often do
neighbours agree, and does the graph help to predict the classes?
"""

# %%
# Three graphs
# ------------
import matplotlib.pyplot as plt
import numpy as np

from djgnn import DJClassifier
from djgnn.graph import heterophilic_sbm, stochastic_block_model
from djgnn.spectral import homophily

near, far = 0.05, 0.005
graphs = {
    "agree": stochastic_block_model(
        [80] * 4,
        np.full((4, 4), far) + (near - far) * np.eye(4),
        num_features=6,
        signal=2,
        shuffle=True,
    ),
    "disagree": heterophilic_sbm(320, signal=2),
    "unrelated": stochastic_block_model([80] * 4, np.full((4, 4), 0.02), num_features=6, signal=2),
}

# %%
# How often do neighbours agree?
# ------------------------------
# Edge homophily is the share of edges that join equal classes. With four classes of equal size,
# chance gives 0.25. The adjusted measure has chance at 0, and label informativeness says how much
# the class of one end tells about the other.
print(f"{'':10}  edge  adjusted  informative")
for name, graph in graphs.items():
    edge, adjusted, informative = (
        homophily(graph, method=method) for method in ("edge", "adjusted", "label_informativeness")
    )
    print(f"{name:10}  {edge:.2f}  {adjusted:8.2f}  {informative:11.2f}")

# %%
# The second and the third graph look alike here: the class of a node says little about the classes
# of its neighbours. Measures of edges cannot tell a useless graph from one that is useful in
# another way.
#
# Does it help?
# -------------
# The honest way to find out is to train with the graph and without it, and to compare both on
# labels that were held out. That is what the verdict of a fit does. (Two folds instead of four, to
# save time.)
verdicts = {}
for name, graph in graphs.items():
    known = np.where(np.random.default_rng(0).random(graph.num_nodes) < 0.6, graph.y, -1)
    classifier = DJClassifier(folds=2, random_state=0).fit(graph, known)
    verdicts[name] = classifier.verdict_
    print(f"{name}: {classifier.verdict_['text']}\n")

# %%
fig, ax = plt.subplots(figsize=(7, 3.8), layout="constrained")
place = np.arange(len(verdicts))
bars = {
    "label propagation": "propagation",
    "features alone": "features",
    "djgnn": "expected",
}
for offset, (label, key) in enumerate(bars.items()):
    ax.bar(place + 0.27 * (offset - 1), [v[key] for v in verdicts.values()], 0.25, label=label)
low = [v["expected"] - v["low"] for v in verdicts.values()]
high = [v["high"] - v["expected"] for v in verdicts.values()]
ax.errorbar(
    place + 0.27,
    [v["expected"] for v in verdicts.values()],
    [low, high],
    fmt="none",
    ecolor="black",
)
ax.axhline(25, color="gray", linewidth=1, linestyle=":")
ax.set_xticks(place, [f"neighbours {name}" for name in verdicts])
ax.set(ylabel="accuracy on held-out nodes, %", ylim=(0, 100))
ax.legend(loc="upper center", bbox_to_anchor=(0.5, -0.1), ncols=3, frameon=False)
plt.show()

# %%
# Label propagation needs neighbours that agree: in the other two graphs it can only guess (the
# dotted line). Yet the second graph does help, because nodes of one class have similar *rows* in
# the adjacency matrix. In the third there is nothing to gain from the edges, and a verdict is there
# to say so.
