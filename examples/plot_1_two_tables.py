"""
From two tables to reasons
==========================

Accounts pay each other. For some of them we know what kind of account they are, and we would like
to know it for the rest. All we have is a table of accounts and a table of payments, here as data
frames of pandas; ``Graph.from_csv`` reads files in the same way.
"""

# %%
# Two tables
# ----------
# The tables are generated, so that we can look up the truth afterwards. Accounts of one kind pay
# the same few counterparties, but those counterparties are of any kind: *neighbours disagree*.
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

from djgnn import DJClassifier, Graph
from djgnn.graph import heterophilic_sbm

rng = np.random.default_rng(7)
truth = heterophilic_sbm(320, random_state=7)
kinds = np.array(["business", "merchant", "mule", "private"])[truth.y]
codes = rng.choice(np.arange(1000, 10000), truth.num_nodes, replace=False)
names = np.array([f"AC-{code}" for code in codes])
accounts = pd.DataFrame(
    {
        "account": names,
        "days_open": np.round(200 + 90 * truth.x[:, 0].astype(float)),
        "turnover": np.round(np.exp(6 + 0.6 * truth.x[:, 1].astype(float)), 2),
        "kind": np.where(rng.random(truth.num_nodes) < 0.4, kinds, None),
    }
)
payments = pd.DataFrame({"payer": names[truth.edge_index[0]], "payee": names[truth.edge_index[1]]})
accounts.head()

# %%
payments.head()

# %%
# Fit
# ---
# Only the column of the labels has to be named. Ids, numbers and categories are recognised. An
# empty label means that the kind is unknown.
graph = Graph.from_frames(payments, accounts, label="kind")
classifier = DJClassifier(random_state=0).fit(graph)
print(classifier.verdict_["text"])

# %%
# The verdict is the first thing to read: what share of the unknown accounts will be right, what
# simpler methods reach on the same accounts, and whether the payments help at all. It is measured
# on labels that were held out. As the tables are generated we can check it:
unknown = accounts["kind"].isna().to_numpy()
right = (classifier.predict(graph) == kinds)[unknown].mean()
print(f"{right:.1%} of {unknown.sum()} unknown accounts are right")

# %%
# Reasons
# -------
# The model is a mixture of experts, and a prediction is exactly the sum of their shares. Here is
# the account, among those of unknown kind, that the model is most sure is a mule:
surest = classifier.predict_proba(graph)[:, classifier.classes_ == "mule"].ravel()
surest[~unknown] = 0
found = classifier.explain(names[surest.argmax()])

by_kind = {}  # an expert has a member for every fold of the labels
for part in found.experts:
    by_kind.setdefault(part.expert.rpartition("-")[0], []).append(part)

fig, ax = plt.subplots(figsize=(7, 3.2), layout="constrained")
left = np.zeros(len(by_kind))
for kind in classifier.classes_:
    share = np.array([sum(part.shares[kind] for part in parts) for parts in by_kind.values()])
    ax.barh(list(by_kind), share, left=left, label=kind)
    left += share
ax.invert_yaxis()
ax.set(xlabel="share of the probability", title=f"{found.name}: {found.prediction}")
ax.legend(ncols=2)
plt.show()

# %%
# And these are the labelled accounts behind the experts with jumps. Jumps lead to accounts that
# are *close in U*, which means that they pay the same counterparties. They need not be neighbours.
rows = [
    (kind, branch.branch, near.name, near.label, near.rank, round(near.weight, 3))
    for kind, parts in by_kind.items()
    for branch in parts[0].branches
    for near in branch.neighbours
    if near.rank and near.label is not None
]
pd.DataFrame(rows, columns=["expert", "branch", "account", "kind", "rank", "weight"]).head(10)
