"""Trained experts become a mixture: weights from held-out nodes, an answer, and its figures."""

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor

from djgnn.model import DJGNN, DJExperts
from djgnn.model.expert_mixture import Mixed
from djgnn.model.experts import kind_of
from djgnn.training.loop import ExpertRecord, Fitted
from djgnn.training.mixture_weights import Mixing, learned
from djgnn.training.out_of_fold import Evidence, averaging_gain
from djgnn.training.selection import decision, score
from djgnn.training.targets import Targets

COMPARED = ("features", "propagation")
"""Experts whose own answers a mixture is compared with."""
NOBODY = (0.0, 1.0, 0.0)
"""Weight, temperature and power of an expert that takes no part."""


def mixture_of(module: Mixed, found: Mapping[str, Fitted], folds: Sequence[Targets]) -> Fitted:
    """The mixture of trained experts, with its weights in place.

    Args:
        module: With all experts, trained or not.
        found: Those that were trained, in the order of the mixture.
        folds: Labels to learn from and select on, of every fold.
    """
    first, targets = next(iter(found.values())), folds[0]
    interrupted = any(each.interrupted for each in found.values())
    used, held = _held_out(module, found, folds, interrupted)
    _set_weights(module, held.mixing(range(len(used)), module.folds > 1), held.kinds, used)
    blank = torch.zeros_like(first.logits)
    every = [found[name].logits if name in found else blank for name in module.names]
    if module.folds == 1:
        evidence, answer = None, module.combine(every)
        own, y = answer[targets.val], targets.val_y
    else:
        fold = fold_numbers(folds, blank)
        evidence, answer = held.evidence(), module.combine(every, fold)
        own, y = torch.from_numpy(evidence.logits), torch.from_numpy(evidence.y)
    metric = targets.metric
    validation = score(decision(own, metric).cpu().numpy(), y.cpu().numpy(), metric)
    if evidence is not None:
        gain = averaging_gain(module, every, fold, used, validation, metric)
        evidence = dataclasses.replace(evidence, members=len(used), gain=gain)
    records = _records(module, found)
    if isinstance(module, DJExperts) and module.folds > 1:
        module = module.only(held.kinds)
    history = (
        dataclasses.replace(record, expert=name)
        for name, each in found.items()
        for record in each.history
    )
    return Fitted(
        module=module,
        epoch=max(each.epoch for each in found.values()),
        validation=validation,
        validation_loss=float(F.nll_loss(own, y)),
        logits=answer,
        held=answer[targets.val],
        history=tuple(history),
        decided=decision(answer, metric)[targets.test].cpu().numpy(),
        decisions=np.concatenate([each.decisions for each in found.values()]),
        seconds=sum(each.seconds for each in found.values()),
        interrupted=interrupted,
        experts=records,
        evidence=evidence,
        alone={} if evidence else {n: found[n].logits for n in COMPARED if n in found},
        by_expert={name: each.logits for name, each in found.items()},
    )


@dataclass(frozen=True, eq=False)
class _HeldOut:
    """What every kind of expert says about the validation nodes of each fold.

    Shapes:
        logits, by kind and fold ``[m, classes]``; labels, counts and nodes, by fold ``[m]``.
    """

    kinds: list[str]
    logits: list[list[NDArray[np.float32]]]
    labels: list[NDArray[np.int64]]
    counts: list[NDArray[np.float64] | None]
    nodes: list[NDArray[np.int64]]

    def mixing(self, folds: Iterable[int], offsets: bool) -> Mixing:
        """The mixture that the nodes of these folds teach."""
        some = list(folds)
        held = [np.concatenate([each[k] for k in some]) for each in self.logits]
        given = [part for k in some if (part := self.counts[k]) is not None]
        counts = np.concatenate(given) if given else None  # all folds have some, or none has
        return learned(held, np.concatenate([self.labels[k] for k in some]), counts, offsets)

    def evidence(self) -> Evidence:
        """What members say about the fold that they did not learn from, weighed by other folds."""
        every, found = range(len(self.labels)), []
        for k in every:
            elsewhere = self.mixing([j for j in every if j != k] or [k], offsets=True)
            found.append(elsewhere.mixed([each[k] for each in self.logits]))
        each_kind = zip(self.kinds, self.logits, strict=True)
        alone = {kind: np.concatenate(each) for kind, each in each_kind}
        nodes, y = np.concatenate(self.nodes), np.concatenate(self.labels)
        return Evidence(nodes, y, np.concatenate(found), alone)


def _held_out(
    module: Mixed, found: Mapping[str, Fitted], folds: Sequence[Targets], interrupted: bool
) -> tuple[list[int], _HeldOut]:
    """The folds that take part, and what the kinds that all of them have say there."""
    by_fold: list[dict[str, Fitted]] = [{} for _ in folds]
    for name, k in zip(module.names, folds_of(module), strict=True):
        if name in found:
            by_fold[k][kind_of(name)] = found[name]
    used = [k for k, of_fold in enumerate(by_fold) if of_fold]
    if interrupted and len(used) > 1:  # the last one is not complete
        used.pop()
    kinds = [kind for kind in by_fold[0] if all(kind in by_fold[k] for k in used)]

    def said(kind: str, k: int) -> NDArray[np.float32]:
        # One fold is scored where its epochs were chosen; several where no choice flatters them.
        one = by_fold[k][kind]
        chosen = one.held if module.folds > 1 else one.logits[folds[k].val]
        return np.asarray(chosen.cpu().numpy())

    return used, _HeldOut(
        kinds,
        [[said(kind, k) for k in used] for kind in kinds],
        [folds[k].labels[1] for k in used],
        [counts_of(folds[k]) for k in used],
        [folds[k].nodes[1] for k in used],
    )


def _set_weights(module: Mixed, mixing: Mixing, kinds: Sequence[str], used: Sequence[int]) -> None:
    """Give each member its weight, temperature and power; others take no part."""
    of_kind = dict(zip(kinds, mixing.rows(len(used)), strict=True))
    members = [
        of_kind.get(kind_of(name), NOBODY) if k in used else NOBODY
        for name, k in zip(module.names, folds_of(module), strict=True)
    ]
    for column, values in enumerate((module.weights, module.temperatures, module.powers)):
        values.copy_(torch.tensor([each[column] for each in members]))
    module.product.fill_(mixing.product)
    module.offsets.copy_(torch.from_numpy(mixing.offsets))


def _records(module: Mixed, found: Mapping[str, Fitted]) -> tuple[ExpertRecord, ...]:
    """What became of every trained expert."""
    influence = dict(zip(module.names, module.influence()[:, 0, 0].tolist(), strict=True))
    return tuple(
        ExpertRecord(
            name,
            influence[name],
            each.epoch,
            len(each.history),
            each.validation,
            each.validation_loss,
            each.seconds,
            dropped_jumps(each.module),
        )
        for name, each in found.items()
    )


def folds_of(module: Mixed) -> list[int]:
    """The fold of every member: a mixture lists all experts of the first fold first."""
    size = len(module.names) // module.folds
    return [i // size for i in range(len(module.names))]


def fold_numbers(folds: Sequence[Targets], like: Tensor) -> Tensor:
    """The fold of every node, -1 where it is in none, ``[n]``."""
    found = torch.full((like.shape[0],), -1, device=like.device)
    for k, targets in enumerate(folds):
        found[targets.val] = k
    return found


def counts_of(targets: Targets) -> NDArray[np.float64] | None:
    """As how many nodes the validation nodes count, as the losses count them."""
    if targets.class_weight is None:
        return None
    counts = targets.class_weight.cpu().numpy().astype(np.float64)[targets.labels[1]]
    return np.asarray(counts * counts.size / max(counts.sum(), np.finfo(np.float64).tiny))


def dropped_jumps(module: Any) -> tuple[str, ...]:
    """The jumps of an expert that were taken out."""
    if not isinstance(module, DJGNN) or module.jumps is None:
        return ()
    named = zip(module.branch_names, module.mixture.alpha.tolist(), strict=True)
    return tuple(name for name, alpha in named if alpha == 0)
