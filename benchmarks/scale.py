"""Time and memory of a joint training step as graphs grow, beside PyG's GCN and LINKX.

    python benchmarks/scale.py [--device cpu|cuda] [--nodes 20000,169343] [--rounds 5] [--plot FILE]

Graphs are heterophilic block models with power-law degrees (the law of
`large_sbm.degree_corrected_sbm`, drawn on the device), 128 features, 6.9 edges per node unless
--edges says otherwise; half of them have a label. The step is that of `fit`: pump, exact ranks, all
branches, loss, backward and Adam, with nothing frozen, in CUDA graphs where `fit` has them; hidden
64 and K = 3, so six branches, 384 columns in all. GCN has two layers with 384 hidden columns, LINKX
384 as well. The dense formulation joins up to 4,000 nodes.
Prints a row per size, stages of our step with a search from scratch, the search of a step, which
begins with the last one's order, and the growth exponents between the sizes.
"""

from __future__ import annotations

import argparse
import gc
import json
import math
import statistics
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

import torch
import torch.nn.functional as F

from dense import dense_forward
from djgnn.cli.memory import training_memory
from djgnn.graph.operator import SparseOperator, csr_tensor
from djgnn.jumps import single_classes
from djgnn.model import DJGNN, GraphOperators
from djgnn.training.config import TrainConfig
from djgnn.training.loop import Targets
from djgnn.training.optimizer import Adam
from djgnn.training.passes import choose_passes
from djgnn.training.provenance import PeakMemory

FEATURES, HIDDEN, JUMPS, CLASSES, CENTERS = 128, 64, 3, 40, 5
WIDTH = HIDDEN * (JUMPS + 3)
DENSE_UP_TO = 4000
DEGREE = 1_166_243 / 169_343
Forward = Callable[[], tuple[torch.Tensor, torch.Tensor | float]]


def draw(n: int, edges: int, device: str, seed: int = 0) -> tuple[torch.Tensor, ...]:
    """Edge index sorted by source, features and labels of a degree-corrected block model."""
    g = torch.Generator(device).manual_seed(seed)

    def uniform(count: int) -> torch.Tensor:
        return torch.rand(count, generator=g, device=device, dtype=torch.float64)

    y = torch.arange(n, device=device) % CLASSES
    weight = (1 - uniform(n)).pow(-1 / 1.5)
    weight = (weight / weight.mean()).clamp_max(math.sqrt(n))
    stubs = (weight * (edges / weight.sum()) + uniform(n)).floor().long()
    order = y.argsort(stable=True)
    ends = order.repeat_interleave(stubs[order] + 1)
    sizes = torch.zeros(CLASSES, dtype=torch.int64, device=device).index_add_(0, y, stubs + 1)
    bounds = torch.cat([sizes.new_zeros(1), sizes.cumsum(0)])
    source = torch.arange(n, device=device).repeat_interleave(stubs)
    chance, step = uniform(source.numel()), (uniform(source.numel()) * CLASSES).long()
    shift = torch.where(chance < 0.1, 0, torch.where(chance < 0.55, 1, step))
    aim = (y[source] + shift) % CLASSES
    del chance, step, shift
    room = bounds[aim + 1] - bounds[aim]
    target = ends[bounds[aim] + (uniform(source.numel()) * room).long()]
    key = torch.unique((source * n + target)[source != target])
    edge_index = torch.stack([key // n, key % n])
    means = F.normalize(torch.randn(CLASSES, FEATURES, generator=g, device=device), dim=1)
    x = torch.randn(n, FEATURES, generator=g, device=device).add_(means[y])
    return edge_index, x, y


def operator(row: torch.Tensor, column: torch.Tensor, value: torch.Tensor, n: int) -> Any:
    """A `SparseOperator` from entries sorted by row, without leaving the device."""

    def csr(rows: torch.Tensor, columns: torch.Tensor, values: torch.Tensor) -> torch.Tensor:
        pointers = torch.bincount(rows, minlength=n).cumsum(0)
        starts = torch.cat([pointers.new_zeros(1), pointers]).int()
        return csr_tensor(starts, columns.int(), values, (n, n))

    turned = torch.argsort(column, stable=True)
    back = csr(column[turned], row[turned], value[turned])
    return SparseOperator(csr(row, column, value), (back,))


def operators_of(edge_index: torch.Tensor, n: int) -> GraphOperators:
    row, column = edge_index
    ones = torch.ones(row.numel(), device=row.device)
    degree = torch.bincount(row, minlength=n).float()
    root = (degree + 1).rsqrt()
    itself = torch.arange(n, device=row.device)
    rows, columns = torch.cat([row, itself]), torch.cat([column, itself])
    order = torch.argsort(rows, stable=True)
    rows, columns = rows[order], columns[order]
    return GraphOperators(
        adjacency=operator(row, column, ones, n),
        degree=degree,
        volume=degree.sum(),
        homophilic=operator(rows, columns, root[rows] * root[columns], n),
        twins=single_classes(n).to(row.device),
    )


def training_step(
    forward: Forward, module: torch.nn.Module, y: torch.Tensor, train: torch.Tensor
) -> Callable[[], object]:
    optimizer = torch.optim.Adam(module.parameters(), lr=0.01, fused=True)
    labels = y[train]

    def run() -> None:
        logits, further = forward()
        loss = F.cross_entropy(logits.index_select(0, train), labels) + further
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)

    return run


def step_of_fit(
    module: DJGNN, inputs: tuple[Any, Any], y: torch.Tensor, train: torch.Tensor
) -> Callable[[], object]:
    """The update of the training loop, with the search that an evaluation would leave it."""
    none = train[:0]
    targets = Targets(train, y[train], none, none, none, "accuracy")
    passes = choose_passes(module, inputs, targets, TrainConfig())
    optimizer = Adam(module.parameters(), lr=0.01)
    generator = torch.Generator(train.device).manual_seed(0)
    return lambda: passes.update(optimizer, generator)


def seconds(run: Callable[[], object], rounds: int, cuda: bool) -> float:
    times = []
    for _ in range(rounds + 4):
        if cuda:
            torch.cuda.synchronize()
        begun = time.perf_counter()
        run()
        if cuda:
            torch.cuda.synchronize()
        times.append(time.perf_counter() - begun)
    return statistics.median(times[4:])


def peak_mib(run: Callable[[], object], cuda: bool) -> float:
    gc.collect()
    if not cuda:
        memory = PeakMemory()
        run()
        return memory.mib()
    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats()
    run()
    return torch.cuda.max_memory_allocated() / 2**20


def stages(module: DJGNN, x: Any, operators: GraphOperators, cuda: bool) -> dict[str, float]:
    """Milliseconds of the parts of a step, each waited for."""
    marks: dict[str, float] = {}
    begun = time.perf_counter()

    def mark(name: str) -> None:
        nonlocal begun
        if cuda:
            torch.cuda.synchronize()
        marks[name] = 1e3 * (time.perf_counter() - begun)
        begun = time.perf_counter()

    mark("-")
    positions = module.pump(operators.adjacency, operators.degree)
    mark("pump")
    view = module.view(x, operators)
    module.ranks.forget()
    module.ranks(positions.u, operators.twins)
    mark("search")
    table = view.filters(module, positions.u)
    mark("table")
    del table
    encoding = module.encode(view)
    mark("encode")
    logits = module.decode(encoding, view)
    mark("decode")
    (logits.square().mean() + encoding.pump.loss).backward()
    mark("backward")
    module.zero_grad(set_to_none=True)
    del marks["-"]
    return marks


@torch.no_grad()
def search_ms(module: DJGNN, operators: GraphOperators, cuda: bool) -> float:
    """The pump and a search that begins with the order of the last one."""
    assert module.pump is not None
    pump, twins = module.pump, operators.twins

    def search() -> None:
        module.ranks.search(pump(operators.adjacency, operators.degree).u, twins)

    return 1e3 * seconds(search, 5, cuda)


def gcn(device: str) -> torch.nn.Module:
    from torch_geometric.nn.models import GCN

    return GCN(FEATURES, WIDTH, 2, CLASSES, dropout=0.5, cached=True).to(device)


def linkx(n: int, device: str) -> torch.nn.Module:
    from torch_geometric.nn.models import LINKX

    return LINKX(n, FEATURES, WIDTH, CLASSES, 1, dropout=0.5).to(device)


def kept(n: int, device: str) -> AbstractContextManager[object]:
    """Large blocks are kept from step to step, as in `djgnn fit`; for GCN and LINKX too."""
    return training_memory(4 * n * WIDTH if device == "cpu" else 0)


def measure(n: int, edges: int, device: str, rounds: int, others: bool) -> dict[str, Any]:
    edge_index, x, y = draw(n, edges, device)
    train = torch.arange(0, n, 2, device=device)
    row: dict[str, Any] = {"nodes": n, "edges": edge_index.shape[1], "device": device}

    def add(name: str, module: torch.nn.Module, forward: Forward | None = None) -> None:
        torch.manual_seed(0)
        module.train()
        if forward is None:
            step = step_of_fit(module, (x, operators), y, train)
        else:
            step = training_step(forward, module, y, train)
        try:
            with kept(n, device):
                row[f"{name}_mib"] = peak_mib(step, device == "cuda")
                row[f"{name}_ms"] = 1e3 * seconds(step, rounds, device == "cuda")
        except torch.OutOfMemoryError:
            row[f"{name}_ms"] = None

    operators = operators_of(edge_index, n)
    ours(row, add, x, operators)
    if others:
        plain = gcn(device)
        add("gcn", plain, lambda: (plain(x, edge_index), 0.0))
        other = linkx(n, device)
        add("linkx", other, lambda: (other(x, edge_index), 0.0))
    return row


def ours(row: dict[str, Any], add: Any, x: torch.Tensor, operators: GraphOperators) -> None:
    n, device = len(x), x.device.type
    module = DJGNN(FEATURES, HIDDEN, CLASSES, n, JUMPS, num_centers=CENTERS).to(device)
    add("ours", module)
    with kept(n, device):
        row["search_ms"] = search_ms(module, operators, device == "cuda")
        stages(module, x, operators, device == "cuda")
        parts = stages(module, x, operators, device == "cuda")
    row["stages"] = {name: round(taken, 2) for name, taken in parts.items()}
    if n <= DENSE_UP_TO:
        adjacency = operators.adjacency.to_dense()
        add("dense", module, lambda: dense_forward(module, x, adjacency))


def exponent(rows: list[dict[str, Any]], key: str) -> float:
    """Slope of log(key) over log(nodes), least squares."""
    points = [(math.log(r["nodes"]), math.log(r[key])) for r in rows if r.get(key)]
    a, b = (statistics.mean(side) for side in zip(*points, strict=True))
    return sum((s - a) * (t - b) for s, t in points) / sum((s - a) ** 2 for s, _ in points)


def show(row: dict[str, Any]) -> None:
    parts = [f"{row['nodes']:8d} nodes {row['edges']:9d} edges"]
    for name in ("ours", "gcn", "linkx", "dense"):
        if f"{name}_ms" in row:
            taken = row[f"{name}_ms"]
            size = row.get(f"{name}_mib", float("nan"))
            parts.append(
                f"{name} out of memory"
                if taken is None
                else f"{name} {taken:.1f} ms {size:.0f} MiB"
            )
    if row.get("gcn_ms"):
        parts.append(f"ours/gcn {row['ours_ms'] / row['gcn_ms']:.2f}")
    parts.append(f"search {row['search_ms']:.1f} ms")
    print("  ".join(parts) + f"\n         {row['stages']}", flush=True)


def plot(rows: list[dict[str, Any]], file: str) -> None:
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(1, 2, figsize=(10, 4))
    for axis, unit, label in zip(
        axes, ("ms", "mib"), ("milliseconds a step", "peak MiB"), strict=True
    ):
        for name in ("ours", "gcn", "linkx", "dense"):
            points = [(r["nodes"], r[f"{name}_{unit}"]) for r in rows if r.get(f"{name}_{unit}")]
            if points:
                axis.loglog(*zip(*points, strict=True), marker="o", label=name)
        axis.set(xlabel="nodes", ylabel=label)
        axis.grid(alpha=0.3)
        axis.legend()
    figure.tight_layout()
    figure.savefig(file)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--nodes", default="4000,20000,80000,169343")
    parser.add_argument("--edges", type=int, help="edges per node, 6.9 by default")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--alone", action="store_true", help="without GCN and LINKX")
    parser.add_argument("--plot")
    parser.add_argument("--json")
    options = parser.parse_args()
    name = torch.cuda.get_device_name() if options.device == "cuda" else "cpu"
    print(f"{name}, torch {torch.__version__}, {torch.get_num_threads()} threads")
    rows = []
    for n in (int(part) for part in options.nodes.split(",")):
        edges = round(n * (options.edges or DEGREE))
        rows.append(measure(n, edges, options.device, options.rounds, not options.alone))
        show(rows[-1])
    fitted = [r for r in rows if r["nodes"] >= 20000]
    if len(fitted) > 1:
        print(f"exponents: time {exponent(fitted, 'ours_ms'):.2f}, "
              f"memory {exponent(fitted, 'ours_mib'):.2f}")  # fmt: skip
    if options.json:
        with open(options.json, "w", encoding="utf-8") as file:
            json.dump(rows, file, indent=1)
    if options.plot:
        plot(rows, options.plot)


if __name__ == "__main__":
    main()
