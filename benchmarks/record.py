"""What recording costs: the same training with and without it, in one run.

    python benchmarks/record.py cora squirrel [--epochs 60] [--repeats 3]

Both trainings alternate. Seconds are processor time, which other load on the machine hardly
changes. Prints the seconds of the fastest of each, their ratio, and the observer's own share: the
sum of its calls and of building the recording at the end.
"""

from __future__ import annotations

import argparse
import time
from typing import Any

from djgnn.graph import Graph
from djgnn.training.config import resolve
from djgnn.training.inputs import build_djgnn
from djgnn.training.progress import Hooks
from djgnn.training.recorder import Recorder
from djgnn.training.run import train


def once(graph: Graph, epochs: int, record: bool) -> tuple[float, float]:
    """Seconds of a training with its recording, and of the observer alone."""
    config = resolve("default", graph.name, epochs=epochs)
    module, inputs = build_djgnn(config, graph)
    recorder, spent = Recorder(graph.num_nodes), 0.0

    def observe(*seen: Any) -> None:
        nonlocal spent
        begun = time.process_time()
        recorder(*seen)
        spent += time.process_time() - begun

    begun = time.process_time()
    observer = observe if record else None
    fitted, _ = train(module, inputs, graph, 0, config.training, 0, Hooks(observer=observer))
    if record:
        ended = time.process_time()
        recorder.finish(fitted, inputs)
        spent += time.process_time() - ended
    return time.process_time() - begun, spent


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("datasets", nargs="*", default=["cora", "squirrel"])
    parser.add_argument("--data", default=None)
    parser.add_argument("--epochs", type=int, default=60)
    parser.add_argument("--repeats", type=int, default=3)
    options = parser.parse_args()
    for name in options.datasets:
        graph = Graph.load(name, data=options.data)
        once(graph, 3, record=True)
        plain, recorded, own = [], [], []
        for _ in range(options.repeats):
            plain.append(once(graph, options.epochs, record=False)[0])
            seconds, spent = once(graph, options.epochs, record=True)
            recorded.append(seconds)
            own.append(spent / (seconds - spent))
        print(
            f"{name}: {options.epochs} epochs, {min(plain):.2f} s without, {min(recorded):.2f} s "
            f"with recording: ratio {min(recorded) / min(plain):.3f}; "
            f"observer's own share {100 * min(own):.2f}% to {100 * max(own):.2f}% of training"
        )


if __name__ == "__main__":
    main()
