"""The tables that can be run: which data sets, and what stands in for those that are not here."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Suite:
    """A table: its data sets, and the sets that are run beside them because some may be missing.

    Args:
        name: Its name on the command line and in the paper's data file.
        title: Its title.
        datasets: Its data sets, in order.
        stand_ins: Sets of the same family that are on hand, never called by the others' names.
    """

    name: str
    title: str
    datasets: tuple[str, ...]
    stand_ins: tuple[str, ...] = ()


SUITES = {
    suite.name: suite
    for suite in (
        Suite(
            "table1",
            "Table 1: the nine Geom-GCN sets, the corrected Cornell, the filtered Wikipedia graphs",
            (
                "texas",
                "wisconsin",
                "cornell_old",
                "cornell",
                "actor",
                "squirrel",
                "squirrel_filtered",
                "chameleon",
                "chameleon_filtered",
                "citeseer",
                "pubmed",
                "cora",
            ),
        ),
        Suite(
            "table2",
            "Table 2: large graphs",
            ("penn94", "arxiv-year", "ogbn-arxiv"),
            ("fb100_cornell5", "fb100_reed98", "twitch_de", "twitch_engb"),
        ),
        Suite(
            "filtered",
            "Wikipedia graphs without duplicated nodes",
            ("chameleon_filtered", "squirrel_filtered"),
        ),
    )
}


def stand_in_remarks(suite: Suite, used: Sequence[str], refused: Sequence[str]) -> list[str]:
    """What to say about stand-ins and about sets that are not here."""
    found = []
    for name in refused:
        found.append(f"{name}: not on this machine and not to be downloaded from here; not run.")
    stand_ins = [name for name in used if name in suite.stand_ins]
    if stand_ins:
        found.append(
            f"{', '.join(stand_ins)}: stand-ins of the same family, not the paper's sets; "
            "their figures compare models with each other and with nothing in the paper."
        )
    return found
