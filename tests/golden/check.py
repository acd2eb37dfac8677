"""Compare the `author` preset, in float64, with outputs of the published code.

    python tests/golden/check.py FILE...

Prints the largest absolute error of every quantity; exit status 1 if one is above its limit.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from djgnn.jumps import rank_lists
from djgnn.model import DJGNN, ModelConfig, preset

LIMIT = 1e-8
LIMIT_AFTER_TRAINING = 1e-6


class Golden:
    """One golden file: the case, and the model with the file's weights."""

    def __init__(self, path: Path) -> None:
        with np.load(path, allow_pickle=False) as file:
            self.data = {key: torch.from_numpy(np.asarray(file[key])) for key in file.files}
        d = self.data
        config = ModelConfig(**preset("author")["model"]).replace(
            dropout=0.0, num_centers=int(d["p"])
        )
        self.model = DJGNN(
            d["x"].shape[1],
            int(d["hidden"]),
            d["param/classifier.weight"].shape[0],
            num_nodes=int(d["n"]),
            num_jumps=int(d["num_jumps"]),
            config=config,
        ).double()
        with torch.no_grad():
            for key, (parameter, transposed) in self.parameters().items():
                value = d[f"param/{key}"]
                parameter.copy_(value.t() if transposed else value)

    def parameters(self, grad: bool = False) -> dict[str, tuple[Tensor, bool]]:
        """Published name -> our tensor (a view of it), and whether it is transposed."""
        m = self.model
        tensors = {key: (value.grad if grad else value.data) for key, value in m.named_parameters()}
        h = m.config.hidden_channels
        table = {
            "pump.weight": (tensors["pump.weight"], False),
            "pump.bias": (tensors["pump.bias"], False),
            "alpha_logits": (tensors["mixture.alpha_logits"], False),
            "classifier.weight": (tensors["mixture.weights.0"], False),
            "classifier.bias": (tensors["mixture.biases.0"], False),
        }
        for layer in range(2):
            table[f"hb{layer + 1}.weight"] = (tensors[f"homophilic.weights.{layer}"], True)
            table[f"hb{layer + 1}.bias"] = (tensors[f"homophilic.biases.{layer}"], False)
        for k in range(len(m.branches)):
            part = slice(k * h, (k + 1) * h)
            table[f"jump{k}.weight"] = (tensors["jumps.weight"][:, part], True)
            table[f"jump{k}.bias"] = (tensors["jumps.bias"][part], False)
        return table

    def loss(self) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        d = self.data
        out = self.model.run(d["x"], d["edge_index"])
        log_probs = F.log_softmax(out.logits, dim=1)
        mask = d["train_mask"]
        total = F.nll_loss(log_probs[mask], d["y"][mask]) + out.pump_loss
        return total, log_probs, out.pump.trace_ratio, out.pump.orthogonality

    def errors(self) -> Iterator[tuple[str, float, float]]:
        """(quantity, largest absolute error, limit), in the order of the computation."""
        d, m = self.data, self.model
        out = m.run(d["x"], d["edge_index"])
        operators = m.prepare(d["edge_index"])
        yield "U", _error(out.pump.u, d["out/U"]), LIMIT
        ranks = rank_lists(out.pump.u, operators.twins, int(d["num_jumps"])).index
        yield "ranks (differing)", float((ranks != d["out/ranks"]).sum()), 0.0
        yield "J", _error(out.table.to_dense(), d["out/J"]), LIMIT

        m.zero_grad()
        total, log_probs, trace_ratio, orthogonality = self.loss()
        yield "log-probabilities", _error(log_probs, d["out/log_probs"]), LIMIT
        yield "trace ratio loss", _error(trace_ratio, d["out/trace_ratio_loss"]), LIMIT
        yield "orthogonality loss", _error(orthogonality, d["out/orthogonality_loss"]), LIMIT
        yield "total loss", _error(total, d["out/total_loss"]), LIMIT
        total.backward()
        for key, (gradient, transposed) in self.parameters(grad=True).items():
            expected = d[f"grad/{key}"]
            yield (
                f"gradient {key}",
                _error(gradient, expected.t() if transposed else expected),
                LIMIT,
            )

        optimizer = torch.optim.Adam(m.parameters(), lr=0.01, weight_decay=5e-4)
        losses = []
        for _ in range(len(d["train/losses"])):
            optimizer.zero_grad()
            total, *_ = self.loss()
            total.backward()
            optimizer.step()
            losses.append(total.detach())
        limit = LIMIT_AFTER_TRAINING
        yield "loss curve", _error(torch.stack(losses), d["train/losses"]), limit
        with torch.no_grad():
            _, log_probs, *_ = self.loss()
        yield "final log-probabilities", _error(log_probs, d["train/log_probs"]), limit


def _error(ours: Tensor, theirs: Tensor) -> float:
    if ours.shape != theirs.shape:
        return float("inf")
    difference = (ours.detach() - theirs).abs()
    return float(difference.max()) if difference.numel() else 0.0


def main(paths: list[str]) -> int:
    if not paths:
        print(__doc__)
        return 2
    failed = False
    for path in paths:
        print(path)
        for quantity, error, limit in Golden(Path(path)).errors():
            bad = not error <= limit
            failed |= bad
            print(f"  {quantity:28s} {error:10.3e}  {'ABOVE ' if bad else ''}limit {limit:.0e}")
    print("failed" if failed else "all within limits")
    return int(failed)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
