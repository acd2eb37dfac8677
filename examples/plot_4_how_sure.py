"""
How sure is it?
===============

A probability is useful if it is right: of the nodes that are given 80 percent, four out of five
should be correct. And where the model hesitates between classes, a *set* of classes that contains
the right one nine times out of ten says more than a single guess. This example checks both on nodes
that the model has not learned from.
"""

# %%
# A fit, and the labels that it has not seen
# ------------------------------------------
import matplotlib.pyplot as plt
import numpy as np

from djgnn import DJClassifier
from djgnn.graph import heterophilic_sbm

graph = heterophilic_sbm(1200, link=0.6, background=0.01, random_state=5)
known = np.where(np.random.default_rng(5).random(graph.num_nodes) < 0.4, graph.y, -1)
classifier = DJClassifier(random_state=0).fit(graph, known)
hidden = known < 0
shares = classifier.predict_proba(graph)[hidden]
y = graph.y[hidden]
print(classifier.verdict_["text"])
print(f"{(shares.argmax(axis=1) == y).mean():.1%} of {hidden.sum()} hidden nodes are right")

# %%
# Probabilities
# -------------
# Nodes are sorted by the probability of their predicted class and put into eight groups. On the
# diagonal, the model would know exactly how often it is right; groups of this size scatter around
# it.
confidence, right = shares.max(axis=1), shares.argmax(axis=1) == y
groups = np.array_split(np.argsort(confidence), 8)
mean = [confidence[group].mean() for group in groups]
share = [right[group].mean() for group in groups]

fig, ax = plt.subplots(figsize=(4.5, 4.2), layout="constrained")
ax.plot([0, 1], [0, 1], color="gray", linestyle=":")
ax.plot(mean, share, marker="o")
ax.set(
    xlabel="probability of the predicted class",
    ylabel="share that is right",
    xlim=(0, 1),
    ylim=(0, 1),
)
plt.show()

# %%
# Sets
# ----
# ``predict_set`` gives every node the classes that may be right. How far down the list it has to go
# for a promised coverage is learned from labels that were held out in training. Here we check it on
# the hidden nodes.
promised = np.linspace(0.7, 0.98, 8)
reached, size = [], []
for coverage in promised:
    sets = classifier.predict_set(graph, coverage=coverage)
    chosen = [labels for labels, unseen in zip(sets, hidden, strict=True) if unseen]
    reached.append(np.mean([label in labels for label, labels in zip(y, chosen, strict=True)]))
    size.append(np.mean([len(labels) for labels in chosen]))

fig, (left, right_ax) = plt.subplots(1, 2, figsize=(8.5, 3.6), layout="constrained")
left.plot([0.7, 1], [0.7, 1], color="gray", linestyle=":")
left.plot(promised, reached, marker="o")
left.set(xlabel="promised coverage", ylabel="coverage on hidden nodes")
right_ax.plot(promised, size, marker="o")
right_ax.set(xlabel="promised coverage", ylabel="classes in a set, on average", ylim=(0, None))
plt.show()

# %%
# More certainty costs larger sets. On the command line ``djgnn fit --coverage 0.95`` sets the
# promise, and ``--coverage-by class`` makes it for every class by itself; the sets are a column
# of ``predictions.csv``.
