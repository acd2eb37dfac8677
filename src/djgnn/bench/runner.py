"""`Runner`: runs single splits of cells in one process and turns every outcome into a record."""

from __future__ import annotations

import time
from functools import cache
from pathlib import Path
from typing import Any

import torch

from djgnn.bench.cell import Built, build, run_split, train_split
from djgnn.bench.code_version import code_version
from djgnn.bench.record import SplitRecord, now, plain_result
from djgnn.bench.spec import CellSpec, data_key
from djgnn.graph import Graph
from djgnn.training.inputs import choose_device
from djgnn.training.provenance import PeakMemory, versions

_versions = cache(versions)
_OUT_OF_MEMORY = ("out of memory", "can't allocate memory", "cannot allocate memory")


class Runner:
    """Runs splits one after another; keeps the last graph and the last built model.

    Args:
        device: ``"auto"``, ``"cpu"`` or ``"cuda"``.
        data: Folder with data sets, looked in first.
    """

    def __init__(self, device: str = "auto", data: str | Path | None = None) -> None:
        self.device = choose_device(device)
        self.data = data
        self._graph: tuple[str, Graph] | None = None
        self._built: tuple[tuple[str, str], Built] | None = None

    def graph(self, name: str) -> Graph:
        """The data set.

        Raises:
            InputError: If it cannot be found or read.
        """
        if self._graph is None or self._graph[0] != name:
            self._built = None
            self._graph = (name, Graph.load(name, data=self.data))
        return self._graph[1]

    def run(self, spec: CellSpec, split: int) -> SplitRecord:
        """Train one split; what goes wrong is recorded, not raised.

        Raises:
            InputError: If the data set itself cannot be loaded: then there is nothing to record.
        """
        graph = self.graph(spec.dataset)
        begun = time.perf_counter()
        memory = PeakMemory(self.device.type)
        parts = graph.split(split)
        sizes = tuple(int(mask.sum()) for mask in (parts.train, parts.val, parts.test))
        result: dict[str, float | None] | None = None
        status, reason, parameters = "done", "", 0
        try:
            built = self._build(spec, graph)
            parameters = built.parameters
            result = _figures(built, graph, spec, split)
        except Exception as error:
            status, reason = describe(error)
            self._built = None
            if self.device.type == "cuda":
                torch.cuda.empty_cache()
        return SplitRecord(
            **identity(spec, split, data_key(graph)),
            status=status,
            reason=reason,
            result=result,
            parameters=parameters,
            sizes=(sizes[0], sizes[1], sizes[2]),
            peak_memory_mib=memory.mib(),
            seconds=time.perf_counter() - begun,
            device=self.device.type,
            metric=graph.metric,
            versions=_versions(),
            finished=now(),
        )

    def _build(self, spec: CellSpec, graph: Graph) -> Built:
        wanted = (spec.model, repr(spec.config))
        if self._built is None or self._built[0] != wanted:
            self._built = None  # frees the old one before the new one is made
            self._built = (wanted, build(spec.recipe(), graph, self.device))
        return self._built[1]


def identity(spec: CellSpec, split: int, data_sha256: str) -> dict[str, Any]:
    """The fields of a record that say what was run."""
    code = code_version(spec.model)
    return {
        "key": spec.key(split, data_sha256, code),
        "label": spec.label,
        "dataset": spec.dataset,
        "seed": spec.seed,
        "split": split,
        "config": spec.config,
        "data_sha256": data_sha256,
        "code": code,
    }


def describe(error: BaseException) -> tuple[str, str]:
    """The status and the reason of a failure.

    Example:
        >>> describe(RuntimeError("CUDA out of memory. Tried to allocate 2 GiB"))
        ('out of memory', 'RuntimeError: CUDA out of memory. Tried to allocate 2 GiB')
    """
    text = " ".join(str(error).split())[:300]
    memory = isinstance(error, MemoryError | torch.OutOfMemoryError)
    memory = memory or any(words in text.lower() for words in _OUT_OF_MEMORY)
    return ("out of memory" if memory else "failed", f"{type(error).__name__}: {text}")


def _figures(built: Built, graph: Graph, spec: CellSpec, split: int) -> dict[str, float | None]:
    if spec.evaluate:
        return plain_result(run_split(built, graph, split, spec.seed))
    fitted = train_split(built, graph, split, spec.seed)
    return plain_result(
        None,
        split=split,
        validation=fitted.validation,
        epoch=fitted.epoch,
        seconds=fitted.seconds,
    )
