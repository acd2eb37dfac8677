"""What an epoch does with a model: one update of its weights, one evaluation of all nodes."""

from dataclasses import replace
from functools import cached_property
from typing import Any, Protocol, cast

import torch
import torch.nn.functional as F
from torch import Generator, Tensor, nn

from djgnn.errors import InputError
from djgnn.jumps.ranks import check_finite
from djgnn.model import DJGNN
from djgnn.model.node_statistics import surroundings
from djgnn.model.operators import at_once
from djgnn.model.profile import Blocks, Parts, Profile
from djgnn.model.table_experts import PlainExpert
from djgnn.model.views import Encoding, GraphView, View
from djgnn.pump import DiffusionPump
from djgnn.training.config import TrainConfig
from djgnn.training.cuda_graphs import MOST_NODES, Captured, can_be_captured, search_can_be_captured
from djgnn.training.minibatch import BatchPasses
from djgnn.training.optimizer import Adam
from djgnn.training.plain_passes import StepPasses
from djgnn.training.targets import Targets

Losses = tuple[Tensor, Tensor]
PARTS, MANY_SHARED = 4, 1 << 15
"""Parts of an evaluation, and nodes from which on several processes evaluate in parts."""


def parts_of(num_nodes: int, device: torch.device, alone: bool = True) -> int:
    """In how many parts all nodes are evaluated: embeddings of all jumps of many nodes would be the
    largest tables of a run on a GPU, and of a process that is there to save memory."""
    if not alone:
        return PARTS if num_nodes >= MANY_SHARED else 1
    return PARTS if device.type == "cuda" and num_nodes > MOST_NODES else 1


class Passes(Protocol):
    """What the training loop asks of a model."""

    @property
    def encoding(self) -> Encoding | None:
        """U and the filters of all nodes at the last evaluation, where the model has them."""

    def update(self, optimizer: Adam, generator: Generator | None) -> Losses:
        """One step along the gradient of all training nodes: the loss, and its pump part."""

    def evaluate(self) -> Tensor:
        """Logits of all nodes, without dropout or gradients."""


def choose_passes(
    module: nn.Module, inputs: tuple[Any, Any], targets: Targets, config: TrainConfig
) -> Passes:
    """The cheapest passes for a module; the one place that chooses between them.

    Whether several processes share the graph was decided before, by the group that
    :func:`djgnn.training.inputs.build_djgnn` was given.

    Args:
        module: Any model of the training loop.
        inputs: x and structure.
        targets: Training nodes and their labels.
        config: Weight of the pump loss, size of a batch.

    Where batches are asked for, networks that have none (:attr:`DJGNN.in_batches`) and
    experts on a table are trained whole.

    Raises:
        InputError: If batches are asked of a model that has none.
    """
    size = config.batch_size
    if isinstance(module, PlainExpert):
        return StepPasses(module, inputs, targets)
    if isinstance(module, Profile):
        return ProfilePasses(module, inputs, targets, config)
    if not isinstance(module, DJGNN):
        if size is not None:
            raise InputError(
                "batch_size: only the DJ-GNN is trained in mini-batches; leave it out for "
                f"{type(module).__name__} (got {size})"
            )
        if hasattr(module, "passes"):  # a model that does not follow a gradient brings its own
            own: Passes = module.passes(inputs, targets, config)  # type: ignore[operator]
            return own
        captured = targets.train.is_cuda and getattr(module, "capturable", False)
        return (CapturedPlainPasses if captured else PlainPasses)(module, inputs, targets, config)
    view: Any = module.view(*inputs)
    alone = isinstance(view, GraphView)
    if size is not None and not alone:
        raise InputError(
            "batch_size: several processes share the rows already; leave it out, or start one "
            f"process (got {size})"
        )
    if size is not None and size < module.num_nodes and module.in_batches:
        return BatchPasses(module, inputs, targets, config)
    if alone and can_be_captured(module, inputs[1]):
        return CapturedPasses(module, view, targets, config)
    return ViewPasses(module, view, targets, config)


class _Update:
    """One step of the optimiser along the loss of the training nodes."""

    def __init__(self, module: nn.Module, targets: Targets, config: TrainConfig) -> None:
        self.module, self.targets, self.config = module, targets, config

    def update(self, optimizer: Adam, generator: Generator | None) -> Losses:
        """Forward, backward, step."""
        logits, pump_loss = self.train(generator)
        fit_loss = F.cross_entropy(
            logits,
            self.targets.train_y,
            self.targets.class_weight,
            label_smoothing=self.config.label_smoothing or 0.0,
        )
        loss = fit_loss + self.config.pump_weight * pump_loss
        loss.backward()  # type: ignore[no-untyped-call]
        self.reduce()
        optimizer.step()
        optimizer.zero_grad()
        return loss.detach(), pump_loss.detach()

    def train(self, generator: Generator | None) -> Losses:
        """Logits of the training nodes, with dropout, and the pump loss."""
        raise NotImplementedError

    def reduce(self) -> None:
        """Sum the gradients of all processes that have a part in them."""


class ViewPasses(_Update):
    """A DJ-GNN's passes: an update reuses the first half of the evaluation before it."""

    module: DJGNN

    def __init__(self, module: DJGNN, view: View, targets: Targets, config: TrainConfig) -> None:
        super().__init__(module, targets, config)
        self.view, self.rows = view, view.rows(targets.train)
        self._encoding: Encoding | None = None

    @property
    def encoding(self) -> Encoding | None:
        """The first half of the last evaluation; every process must ask at the same time."""
        return None if self._encoding is None else self.view.whole(self._encoding)

    def train(self, generator: Generator | None) -> Losses:
        """Logits of the training nodes of all processes, and the pump loss."""
        encoding = self._encoding or self.module.encode(self.view)
        self._encoding = None
        self.module.train()
        logits = self.rows.gather(self.module.decode(encoding, self.rows, generator))
        return logits, encoding.pump.loss

    def evaluate(self) -> Tensor:
        """Logits of all nodes; the first half keeps its gradients for the next update."""
        self.module.eval()
        self._encoding = self.module.encode(self.view)
        with torch.no_grad():
            encoding = self._encoding.detach()
            parts = [self.module.decode(encoding, view) for view in self._parts]
            return self.view.gather(torch.cat(parts) if len(parts) > 1 else parts[0])

    @cached_property
    @torch.no_grad()
    def _parts(self) -> list[View]:
        """What is evaluated together."""
        view: Any = self.view
        device, alone = view.operators.degree.device, isinstance(view, GraphView)
        count = parts_of(self.module.num_nodes, device, alone)
        whole = count == 1 or not self.module.in_batches or self.module.pump is None
        return [view] if whole else view.in_parts(count, device)

    @torch.no_grad()
    def added(self, nodes: Tensor) -> Tensor:
        """What every branch adds to the first layer of the classifier, without dropout.

        Args:
            nodes: Ascending.

        Shapes:
            nodes ``[m]``, result ``[m, branches, width of the first layer]``.
        """
        self.module.eval()
        rows = self.view.rows(nodes)
        return rows.gather(self.module.added(rows))

    def reduce(self) -> None:
        """Sum the gradients of all processes."""
        self.view.reduce(self.module.parameters())


class PlainPasses(_Update):
    """Two whole passes of a model that gives logits of all nodes."""

    encoding = None

    def __init__(
        self, module: nn.Module, inputs: tuple[Any, Any], targets: Targets, config: TrainConfig
    ) -> None:
        super().__init__(module, targets, config)
        self.inputs = inputs

    def train(self, generator: Generator | None) -> Losses:
        """Logits of the training nodes; there is no pump loss."""
        self.module.train()
        logits = self.module(*self.inputs, generator=generator)
        return logits[self.targets.train], logits.new_zeros(())

    @torch.no_grad()
    def evaluate(self) -> Tensor:
        """Logits of all nodes."""
        self.module.eval()
        logits: Tensor = self.module(*self.inputs, generator=None)
        return logits


class ProfilePasses(_Update):
    """Passes of a profile over blocks that are made once.

    Of several processes the first one does the work and gives the others what it learned.
    """

    encoding = None
    module: Profile

    def __init__(
        self, module: Profile, inputs: tuple[Any, Any], targets: Targets, config: TrainConfig
    ) -> None:
        super().__init__(module, targets, config)
        self.x, self.graph = inputs
        self._blocks: Blocks | None = None

    @cached_property
    def rows(self) -> tuple[Blocks, Parts]:
        """The blocks of the training nodes."""
        return self.module.of_nodes(self.blocks, self.targets.train)

    @property
    def blocks(self) -> Blocks:
        """X, S and Y of all nodes; the training labels are taken first."""
        if self._blocks is None:
            module, targets = self.module, self.targets
            module.learn(targets.train, targets.train_y, targets.class_weight)
            columns = module.observe(surroundings(self.graph))
            whole = self.x if self.graph.features is None else self.graph.features
            self._blocks = module.blocks(whole, columns)
        return self._blocks

    def update(self, optimizer: Adam, generator: Generator | None) -> Losses:
        """One step, on the first process."""
        if self.graph.shared is at_once:
            return super().update(optimizer, generator)

        def work() -> tuple[Tensor, Tensor, dict[str, Tensor]]:
            losses = super(ProfilePasses, self).update(optimizer, generator)
            return *losses, self.module.state_dict()

        loss, pump_loss, state = self.graph.shared(work)
        self.module.load_state_dict(state)
        return loss, pump_loss

    def train(self, generator: Generator | None) -> Losses:
        """Logits of the training nodes; there is no pump loss."""
        self.module.train()
        blocks, parts = self.rows
        logits = self.module.decide(blocks, generator, parts)
        return logits, logits.new_zeros(())

    @torch.no_grad()
    def evaluate(self) -> Tensor:
        """Logits of all nodes."""
        self.module.eval()
        logits: Tensor = self.graph.shared(lambda: self.module.decide(self.blocks))
        return logits


class _CapturedUpdate(_Update):
    """Updates that are captured as a CUDA graph and replayed."""

    _steps: Captured | None = None

    def update(self, optimizer: Adam, generator: Generator | None) -> Losses:
        """One launch."""
        if self._steps is None or self._steps.optimizer is not optimizer:
            self._steps = Captured(generator, optimizer)
        self.prepare()
        loss, pump_loss = self._steps(
            lambda: super(_CapturedUpdate, self).update(optimizer, generator)
        )
        return loss, pump_loss

    def prepare(self) -> None:
        """What an update needs that is not captured with it."""


class CapturedPasses(_CapturedUpdate, ViewPasses):
    """A DJ-GNN's passes over a graph of up to some 100,000 nodes on a GPU, each one launch.

    Rank lists are searched before an evaluation, in a CUDA graph of their own where the search can
    be captured, into a tensor that the evaluation and the update after it refer to. The rest of the
    first half is computed twice: sharing it would cost more.
    """

    view: GraphView

    def __init__(
        self, module: DJGNN, view: GraphView, targets: Targets, config: TrainConfig
    ) -> None:
        super().__init__(module, view, targets, config)
        self._evaluation = Captured()
        self._ranking = Captured() if search_can_be_captured(module, view.operators) else None
        twins = view.operators.twins
        self._pump = module.pump
        self._ranks = twins.class_of.new_empty(twins.num_classes, module.num_ranks)
        self._ranked: tuple[int, ...] | None = None

    def prepare(self) -> None:
        """Rank lists, where no evaluation has left any since the last step, or weights were set."""
        if self._ranked != self._versions():
            self._search()
        self._ranked = None

    def train(self, generator: Generator | None) -> Losses:
        """With the rank lists that are there."""
        self.module.train()
        encoding = self.module.encode(replace(self.view, ranks=self._ranks))
        return self.module.decode(encoding, self.rows, generator), encoding.pump.loss

    def evaluate(self) -> Tensor:
        """Logits of all nodes, and rank lists for the next update."""
        self._search()
        return self._evaluation(self._evaluate)[0].clone()

    def _search(self) -> None:
        """Rank lists of the current weights."""
        if self._pump is not None and self.module.fixed_filters is None:
            u, ranks = self._rank() if self._ranking is None else self._ranking(self._rank)
            check_finite(u)
            self._ranks.copy_(ranks)
        self._ranked = self._versions()

    @torch.no_grad()
    def _rank(self) -> tuple[Tensor, Tensor]:
        u = self.view.positions(cast(DiffusionPump, self._pump)).u
        return u, self.module.ranks.search(u, self.view.operators.twins)

    @torch.no_grad()
    def _evaluate(self) -> tuple[Tensor]:
        self.module.eval()
        # Replays write into the tensors of the encoding that was captured: it is always the last.
        self._encoding = self.module.encode(replace(self.view, ranks=self._ranks))
        return (self.module.decode(self._encoding, self.view),)

    def _versions(self) -> tuple[int, ...]:
        """Changes with the weights of the pump, except by the steps of a CUDA graph."""
        return tuple(weight._version for weight in self._pump.parameters()) if self._pump else ()


class CapturedPlainPasses(_CapturedUpdate, PlainPasses):
    """Two whole passes on a GPU, each one launch."""

    def __init__(
        self, module: nn.Module, inputs: tuple[Any, Any], targets: Targets, config: TrainConfig
    ) -> None:
        super().__init__(module, inputs, targets, config)
        self._evaluation = Captured()

    def evaluate(self) -> Tensor:
        """Logits of all nodes."""
        return self._evaluation(lambda: (super(CapturedPlainPasses, self).evaluate(),))[0].clone()
