"""CUDA graphs: a whole step of a small graph as one launch.

On a GPU a step of a few thousand nodes is some three hundred kernels of a few microseconds each;
launching them one by one takes ten times as long as running them, and still twice as long with
100,000 nodes.
"""

import warnings
from collections.abc import Callable
from functools import cache
from typing import Any, cast

import torch
from torch import Generator, Tensor

from djgnn.jumps.engines import on_tiles
from djgnn.jumps.triton_search import capturable, uses_triton
from djgnn.model import DJGNN, GraphOperators
from djgnn.pump import DiffusionPump
from djgnn.training.optimizer import Adam

Run = Callable[[], tuple[Tensor, ...]]
WARM_UP = 3
# The kernels of a step with jumps take longer than their launches from here on.
MOST_NODES = 1 << 18


def can_be_captured(module: DJGNN, operators: GraphOperators) -> bool:
    """Whether a step beside its search is worth a CUDA graph: on a GPU, with few enough nodes.

    A captured step keeps its memory, and a large one gains nothing.
    """
    if module.pump is None:
        return operators.degree.is_cuda and capturable(operators.num_nodes, 0)
    return uses_triton(operators.degree) and operators.num_nodes <= MOST_NODES


def search_can_be_captured(module: DJGNN, operators: GraphOperators) -> bool:
    """Whether the search needs no host synchronisation: Triton, and few enough points."""
    ranks, engine = module.num_ranks, module.config.engine
    fits = module.pump is not None and capturable(operators.twins.num_classes, ranks)
    return fits and on_tiles(engine, cast(DiffusionPump, module.pump).weight.t(), ranks)


class Captured:
    """A function without arguments that does the same to the same tensors at every call.

    The first calls run as they are; then the function is captured, and replayed from there on.
    Every replay overwrites the tensors that the call before returned. A function that cannot be
    captured is run each time.

    Args:
        generator: Source of randomness inside the function.
        optimizer: Stepped inside the function.
    """

    def __init__(
        self,
        generator: Generator | None = None,
        optimizer: Adam | None = None,
    ) -> None:
        self.generator, self.optimizer = generator, optimizer
        self._calls = 0
        self._graph: Any = None
        self._result: tuple[Tensor, ...] = ()
        self._refused = False

    def __call__(self, run: Run) -> tuple[Tensor, ...]:
        """The result of `run`, which must be the same function at every call."""
        self._calls += 1
        if self._graph is None and (self._refused or self._calls <= WARM_UP):
            return self._on_side_stream(run)
        if self._graph is None and not self._capture(run):
            return self._on_side_stream(run)
        self._graph.replay()
        return self._result

    def _on_side_stream(self, run: Run) -> tuple[Tensor, ...]:
        """Run on a side stream: what is captured later must not have run on the current one."""
        here = torch.cuda.current_stream()
        side = _side_stream(torch.cuda.current_device())
        side.wait_stream(here)
        with torch.cuda.stream(side):
            result = run()
        here.wait_stream(side)
        return result

    def _capture(self, run: Run) -> bool:
        graph = torch.cuda.CUDAGraph()
        if self.generator is not None:
            graph.register_generator_state(self.generator)
        groups = [] if self.optimizer is None else self.optimizer.param_groups
        for group in groups:
            group["capturable"] = True
        torch.cuda.synchronize()
        own = torch.cuda.default_generators[torch.cuda.current_device()]
        registered = [own] if self.generator is None else [own, self.generator]
        saved = [(each, each.get_state()) for each in registered]
        try:
            with torch.cuda.graph(graph, stream=_side_stream(torch.cuda.current_device())):
                self._result = run()
        except RuntimeError as error:
            self._refused = True
            for each, state in saved:
                _reset(each, state)
            if self.optimizer is not None:
                self.optimizer.zero_grad()
            warnings.warn(f"steps run without a CUDA graph: {error}", RuntimeWarning, stacklevel=3)
            return False
        self._graph = graph
        return True


@cache
def _side_stream(device: int) -> torch.cuda.Stream:
    """The one stream of all captures: matrix products keep workspace for every stream they saw."""
    return torch.cuda.Stream(device)  # type: ignore[no-untyped-call]


def _reset(generator: Generator, state: Tensor) -> None:
    """Reset a generator that a failed capture left registered."""
    fresh = Generator(generator.device)
    fresh.set_state(state)
    generator.graphsafe_set_state(fresh.graphsafe_get_state())
