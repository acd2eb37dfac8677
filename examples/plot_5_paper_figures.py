r"""
The paper's figures, and f(I), again
====================================

The paper's second figure follows its network through training: what the distances in U become, and
how jumps make a heterophilic graph homophilic (*homophiliation*). Its Appendix A asks what happens
if the pump does not see the graph, f(I) in place of f(A). Both are repeated here on a generated
graph, with the torch module alone.
"""

# %%
# The network of the paper
# ------------------------
# ``DJGNN`` follows PyG's conventions: features and edges in, logits out, and beside them the loss
# of the pump, the trace ratio plus orthogonality.
import matplotlib.pyplot as plt
import numpy as np
import torch
import torch.nn.functional as F

from djgnn.graph import heterophilic_sbm, random_splits
from djgnn.jumps import rank_lists
from djgnn.model import DJGNN, ModelConfig, preset
from djgnn.spectral import homophily

graph = random_splits(heterophilic_sbm(400, random_state=1), num_splits=1)
split = graph.split(0)
train, val, test = (torch.tensor(part) for part in (split.train, split.val, split.test))
x, y = torch.tensor(graph.x), torch.tensor(graph.y)
edge_index = torch.tensor(graph.edge_index)
paper = ModelConfig(**preset("paper")["model"]).replace(pump_adjacency="symmetric")
JUMPS, EPOCHS, LOOK = 6, 150, (0, 20, 150)


# %%
# After some epochs we look at U: which nodes are first, second, third .. in the list of a node,
# and how often have they its class?
def jump_homophily(u, twins):
    """Share of nodes whose k-th other node in U has their class, k = 1 .. JUMPS."""
    lists = rank_lists(u, twins, JUMPS + 1).index.numpy()
    others = [[j for j in row if j != i][:JUMPS] for i, row in enumerate(lists)]
    return (graph.y[np.array(others)] == graph.y[:, None]).mean(axis=0)


def follow(source):
    """Train from fresh weights; return what was seen, and the accuracy on test nodes."""
    model = DJGNN(
        x.shape[1], 32, graph.num_classes, graph.num_nodes, JUMPS, paper, source=source, dropout=0.2
    )
    model.reset_parameters(torch.Generator().manual_seed(0))
    optimizer = torch.optim.Adam(model.parameters(), lr=0.02, weight_decay=5e-4)
    operators = model.prepare(edge_index)
    noise, seen, best = torch.Generator().manual_seed(0), {}, (0.0, 0.0)
    for epoch in range(EPOCHS + 1):
        model.eval()
        with torch.no_grad():
            output = model.run(x, operators)
            hits = (output.logits.argmax(dim=1) == y).double()
        best = max(best, (hits[val].mean().item(), hits[test].mean().item()))
        if epoch in LOOK:
            seen[epoch] = (
                output.pump.u,
                output.alpha,
                jump_homophily(output.pump.u, operators.twins),
            )
        model.train()
        optimizer.zero_grad()
        logits, pump_loss = model(x, operators, generator=noise)
        (F.cross_entropy(logits[train], y[train]) + pump_loss).backward()
        optimizer.step()
    return seen, best[1], model.branch_names


# %%
# Homophiliation
# --------------
runs = {source: follow(source) for source in ("adjacency", "identity")}
fig, axes = plt.subplots(1, 2, figsize=(9, 3.6), sharey=True, layout="constrained")
for ax, (source, (seen, score, _)) in zip(axes, runs.items(), strict=True):
    for epoch, (_, _, share) in seen.items():
        ax.plot(range(1, JUMPS + 1), 100 * share, marker="o", label=f"epoch {epoch}")
    ax.axhline(100 * homophily(graph), color="gray", linestyle=":", label="edges")
    name = {"adjacency": "f(A)", "identity": "f(I)"}[source]
    ax.set(xlabel="rank in U", title=f"{name}: {100 * score:.0f}% of the test nodes right")
axes[0].set(ylabel="links that join equal classes, %", ylim=(0, 100))
axes[1].legend()
plt.show()

# %%
# Edges join equal classes no more often than chance. The nearest nodes in U do, even before
# training: nodes with nearly the same row of A are close for any W. f(I) does not see the rows:
# its positions are random in the beginning, so it starts at chance, and the losses have to move
# every one of them.
#
# Distances and weights
# ---------------------
# The paper's figure shows how the weights :math:`e^{-d}` of all pairs change, and which branch
# the classifier listens to.
fig, (left, right) = plt.subplots(1, 2, figsize=(9, 3.6), layout="constrained")
seen, _, names = runs["adjacency"]
for epoch, (u, _, _) in seen.items():
    left.hist(torch.exp(-torch.pdist(u)).numpy(), bins=60, histtype="step", label=f"epoch {epoch}")
left.set(xlabel="weight of a pair, exp(-d)", ylabel="pairs")
left.legend()
for offset, (epoch, (_, alpha, _)) in enumerate(seen.items()):
    right.bar(
        np.arange(len(names)) + 0.28 * (offset - 1), alpha.tolist(), 0.27, label=f"epoch {epoch}"
    )
right.set_xticks(range(len(names)), names, rotation=45, ha="right")
right.set(ylabel="weight of the branch, alpha")
plt.show()
