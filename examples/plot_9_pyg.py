"""
djgnn beside a PyG model
========================

You have a ``Data`` of PyTorch Geometric and a network that you trained yourself. What would djgnn
make of the same data? It takes the ``Data`` as it is, masks included.
"""

# %%
# The data
# --------
# Any ``Data`` will do; this one is generated, so that nothing has to be downloaded.
import matplotlib.pyplot as plt
import torch
import torch.nn.functional as F
from torch_geometric.data import Data
from torch_geometric.nn import GCNConv, SAGEConv

from djgnn import DJClassifier
from djgnn.graph import heterophilic_sbm, random_splits
from djgnn.model import DJGNN

graph = random_splits(heterophilic_sbm(400, random_state=2), num_splits=1)
data = Data(
    x=torch.tensor(graph.x),
    edge_index=torch.tensor(graph.edge_index),
    y=torch.tensor(graph.y),
    train_mask=torch.tensor(graph.train_mask[:, 0]),
    val_mask=torch.tensor(graph.val_mask[:, 0]),
    test_mask=torch.tensor(graph.test_mask[:, 0]),
)
print(data)


# %%
# Your networks
# -------------
# The usual loop: the epoch is chosen on validation nodes, the test nodes are scored there.
class Net(torch.nn.Module):
    """Two layers of a convolution."""

    def __init__(self, layer):
        super().__init__()
        self.first, self.second = layer(data.num_features, 32), layer(32, 4)

    def forward(self, x, edge_index):
        h = F.dropout(self.first(x, edge_index).relu(), 0.5, self.training)
        return self.second(h, edge_index)


def train(net):
    """Test accuracy at the epoch with the best validation accuracy."""
    optimizer = torch.optim.Adam(net.parameters(), lr=0.01, weight_decay=5e-4)
    best = (0.0, 0.0)
    for _ in range(200):
        net.train()
        optimizer.zero_grad()
        logits = net(data.x, data.edge_index)
        F.cross_entropy(logits[data.train_mask], data.y[data.train_mask]).backward()
        optimizer.step()
        net.eval()
        with torch.no_grad():
            right = (net(data.x, data.edge_index).argmax(dim=1) == data.y).double()
        scores = (right[data.val_mask].mean().item(), right[data.test_mask].mean().item())
        best = max(best, scores)
    return 100 * best[1]


torch.manual_seed(0)
scores = {"GCN (PyG)": train(Net(GCNConv)), "GraphSAGE (PyG)": train(Net(SAGEConv))}

# %%
# djgnn
# -----
# It learns from the training mask, chooses on the validation mask, and never looks at the labels
# of other nodes.
classifier = DJClassifier(random_state=0).fit(data)
test = data.test_mask.numpy()
right = classifier.predict(data)[test] == data.y.numpy()[test]
scores["djgnn"] = 100 * right.mean()
print(classifier.verdict_["text"])

# %%
fig, ax = plt.subplots(figsize=(6, 2.6), layout="constrained")
bars = ax.barh(list(scores), list(scores.values()), color=["tab:gray", "tab:gray", "tab:green"])
ax.bar_label(bars, fmt="%.1f", padding=3)
ax.invert_yaxis()
ax.set(xlabel="test accuracy, %", xlim=(0, 105))
plt.show()

# %%
# The same data, one split and one seed: enough to see that the classes are not in the neighbours,
# not enough to rank systems. For that there is ``djgnn bench``, with all splits, equal budgets
# and tests.
#
# The network inside
# ------------------
# One network with jumps is an ordinary module, to be used in a loop of your own:
net = DJGNN(data.num_features, 32, 4, num_nodes=data.num_nodes, num_jumps=5)
logits, pump_loss = net(data.x, data.edge_index)
loss = F.cross_entropy(logits[data.train_mask], data.y[data.train_mask]) + pump_loss
loss.backward()
print(logits.shape, round(loss.item(), 3))
