"""The block models of the paper's Appendix B: a wanted spectral gap, a wanted heterophily."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np

from djgnn.errors import InputError
from djgnn.graph.graph import Graph
from djgnn.graph.sbm import stochastic_block_model

Series = Literal["structural", "node"]
SERIES: tuple[Series, ...] = ("structural", "node")
GAPS = (0.2, 0.5, 0.67, 0.98)
NUM_LEVELS = 6
LOWEST_HOMOPHILY, HIGHEST_HOMOPHILY = 0.05, 0.95
SIGNAL = 0.75


@dataclass(frozen=True)
class SbmLevel:
    r"""What a level of the laboratory asks for; see :func:`sbm_level` for the formulas.

    Attributes:
        series: ``structural`` (labels leave the communities) or ``node`` (edges choose classes).
        gap: Wanted :math:`g = (p - q) / (p + q)`, the second eigenvalue of the expected walk.
        level: 0 to 5, heterophily (``structural``) or homophily (``node``) increasing.
        flipped: Share f of each community that has the other community's class.
        preference: :math:`\delta`: edges between equal classes are drawn with the factor
            :math:`1 + \delta`, others with :math:`1 - \delta`.
        structural_heterophily: The R to expect.
        node_homophily: The share of agreeing neighbours to expect.
    """

    series: Series
    gap: float
    level: int
    flipped: float
    preference: float
    structural_heterophily: float
    node_homophily: float


def sbm_level(series: Series, gap: float, level: int, *, degree: float = math.inf) -> SbmLevel:
    r"""What to draw for one of six levels at a wanted gap (Appendix B).

    Two communities of equal size, probability p inside and q between, so
    :math:`g = (p - q)/(p + q)`; a share :math:`D_c = (1-g)/2` of the edges joins the communities
    and a share :math:`D_y` joins different classes. With node homophily :math:`h = 1 - D_y`,

    .. math::
        R = \frac{D_y + \epsilon (1 - D_y)}{D_c + \epsilon (1 - D_c)}, \qquad
        \epsilon = \frac{1}{4d}

    where :math:`\epsilon` is what an edge inside a cluster adds to the normalised energy because
    its ends differ in degree (variance about d); it matters where few edges are cut.

    ``structural``: a share f of each community takes the class of the other,
    :math:`D_y = D_c + 2 f (1 - f) g`. Level l asks for :math:`4 f (1 - f) = l/5`, the same f for
    all gaps: R rises evenly from 1 to its maximum (:math:`1/(1-g)` for even degrees), where classes
    and communities are independent.

    ``node``: classes and communities are independent (f = 1/2), and edges between equal classes
    are drawn with a factor :math:`1 + \delta`, others with :math:`1 - \delta`, so
    :math:`h = (1 + \delta)/2`; the walk's eigenvalues are :math:`1, g, \delta, g\delta`. Level l
    asks for h between 0.05 and 0.95, evenly, the same for all gaps. Once :math:`\delta > g` the
    classes are the stronger clusters and R is 1.

    Args:
        series: Which of the two.
        gap: Wanted g, in [0, 1).
        level: 0 to 5.
        degree: Mean degree d, for the expected R only.

    Raises:
        InputError: For an unknown series, or a gap or level out of range.

    Example:
        >>> [round(sbm_level("structural", 0.5, l).structural_heterophily, 2) for l in range(6)]
        [1.0, 1.2, 1.4, 1.6, 1.8, 2.0]
        >>> [round(sbm_level("node", 0.5, l).node_homophily, 2) for l in range(6)]
        [0.05, 0.23, 0.41, 0.59, 0.77, 0.95]
    """
    if series not in SERIES:
        raise InputError(f"series: choose one of {', '.join(SERIES)} (got {series!r})")
    if not 0 <= gap < 1:
        raise InputError(f"gap: (p - q)/(p + q) must be at least 0 and below 1 (got {gap!r})")
    if isinstance(level, bool) or level not in range(NUM_LEVELS):
        raise InputError(f"level: must be 0 to {NUM_LEVELS - 1} (got {level!r})")
    part = level / (NUM_LEVELS - 1)
    if series == "structural":
        flipped, preference = (1 - math.sqrt(1 - part)) / 2, 0.0
        homophily = (1 + gap - part * gap) / 2
    else:
        homophily = LOWEST_HOMOPHILY + part * (HIGHEST_HOMOPHILY - LOWEST_HOMOPHILY)
        flipped, preference = 0.5, 2 * homophily - 1
    classes, clusters = (cut + (1 - cut) / (4 * degree) for cut in (1 - homophily, (1 - gap) / 2))
    ratio = max(classes / clusters, 1.0)
    return SbmLevel(series, gap, level, flipped, preference, ratio, homophily)


def sbm_at_level(
    wanted: SbmLevel,
    num_nodes: int = 400,
    *,
    degree: float = 40.0,
    num_features: int = 16,
    signal: float = SIGNAL,
    random_state: int = 0,
) -> Graph:
    r"""Draw a graph of the laboratory: two communities, two classes, weak features.

    .. math::
        P(i, j) = \tfrac{d}{n} \bigl(1 \pm g\bigr) \bigl(1 \pm \delta\bigr)

    with + where the communities, or the classes, agree. The mean degree d is the same for all
    gaps and levels, so that a gap changes where the edges go and not how many there are. Features
    are Gaussian with one mean per class at distance about :math:`\sqrt 2 s`: with the default
    signal no classifier sees more than about 70 percent in them alone.

    Args:
        wanted: What to draw, from :func:`sbm_level`.
        num_nodes: Number of nodes, divided evenly.
        degree: Mean number of neighbours d.
        num_features: Number of features.
        signal: Strength s of the class in the features.
        random_state: Seed.

    Returns:
        An undirected, shuffled graph; node names are ``community.class/number``.

    Raises:
        InputError: If the degree does not fit the number of nodes.

    Example:
        >>> graph = sbm_at_level(sbm_level("structural", 0.98, 0), 100, degree=20)
        >>> graph.num_nodes, graph.num_classes, sorted(set(n[:3] for n in graph.node_names))
        (100, 2, ['0.0', '1.1'])
    """
    half = num_nodes // 2
    moved = round(wanted.flipped * half)
    count = {(c, k): moved if c != k else half - moved for c in range(2) for k in range(2)}
    blocks = [block for block, size in count.items() if size > 0]
    community, label = (np.array([block[i] for block in blocks]) for i in range(2))
    alike = np.where(np.equal.outer(community, community), 1 + wanted.gap, 1 - wanted.gap)
    alike *= np.where(np.equal.outer(label, label), 1 + wanted.preference, 1 - wanted.preference)
    matrix = degree / max(num_nodes, 1) * alike
    if half < 2 or degree <= 0 or matrix.max() > 1:
        most = num_nodes / alike.max()
        raise InputError(
            f"degree: with {num_nodes} nodes at this gap and level it must be positive and at most "
            f"{most:.1f}; ask for fewer edges or more nodes (got {degree:g})"
        )
    return stochastic_block_model(
        [count[block] for block in blocks],
        matrix,
        labels=label.tolist(),
        num_features=num_features,
        signal=signal,
        shuffle=True,
        block_names=[f"{c}.{k}" for c, k in blocks],
        random_state=random_state,
    )


def communities(graph: Graph) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    """The planted community of each node of :func:`sbm_at_level`, read from its name.

    Example:
        >>> graph = sbm_at_level(sbm_level("structural", 0.5, 0), 10, degree=4)
        >>> bool((communities(graph) == graph.y).all())
        True
    """
    return np.array([int(name.partition(".")[0]) for name in graph.names()], dtype=np.int64)
