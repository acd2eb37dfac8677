"""Supports: which ranks of the jump hierarchy each branch keeps."""

SUPPORTS = ("shell", "paper", "author", "cumulative")
MOST_RANKS = 32
"""How far automatic jumps reach."""


def branch_ranks(
    support: str, num_jumps: int | str, num_nodes: int | None = None
) -> tuple[tuple[int, ...], ...]:
    r"""The ranks that each branch keeps beside the self loop; rank 1 is the first of the list.

    ============ ========== ======================================================
    support      branches   branch k keeps ranks
    ============ ========== ======================================================
    shell        0..K       0: none; k: rank k (the paper's prose, contribution c)
    paper        0..K       :math:`\Pi^k = 1 - \Pi^{k-1}` on the first k ranks (Eq. 5)
    author       0..K-1     0: none; k: k, k-2, k-4, ... (the published code)
    cumulative   0..K       0: none; k: 1..k
    ============ ========== ======================================================

    With ``num_jumps="auto"`` the shells grow geometrically, 1, 2, 3-4, 5-8, 9-16, 17-32: few
    filters that reach far. Shells that a graph of `num_nodes` nodes cannot fill are left out.

    The recursion of Eq. 5 starts from the identity, so away from the diagonal, which the self loop
    overwrites anyway, it keeps k, k-2, k-4, ... too: ``paper`` is ``author`` with one branch more.

    Raises:
        ValueError: For an unknown support, fewer than one jump, more than a graph of `num_nodes`
            nodes has ranks for, or automatic jumps that are not shells.

    Example:
        >>> branch_ranks("author", 4)
        ((), (1,), (2,), (1, 3))
        >>> branch_ranks("shell", 2)
        ((), (1,), (2,))
        >>> branch_ranks("shell", "auto", 9)
        ((), (1,), (2,), (3, 4), (5, 6, 7, 8))
    """
    if support not in SUPPORTS:
        raise ValueError(f"support must be one of {', '.join(SUPPORTS)} (got '{support}')")
    if num_jumps == "auto":
        if support != "shell":
            raise ValueError(f"num_jumps='auto' needs support='shell' (got '{support}')")
        ends = [1 << k for k in range(MOST_RANKS.bit_length())]
        shells = [tuple(range(end // 2 + 1, end + 1)) for end in ends]
        return ((), *(s for s in shells if num_nodes is None or s[-1] <= num_nodes))
    if not isinstance(num_jumps, int) or num_jumps < 1:
        raise ValueError(f"num_jumps must be at least 1 (got {num_jumps})")
    needed = num_jumps - (support == "author")
    if num_nodes is not None and needed > num_nodes:  # before any memory is taken for them
        raise ValueError(
            f"num_jumps={num_jumps} needs {needed} ranks but the graph has only {num_nodes} nodes; "
            "use fewer jumps"
        )
    if support in ("author", "paper"):
        branches = num_jumps if support == "author" else num_jumps + 1
        return tuple(tuple(range(2 - k % 2, k + 1, 2)) for k in range(branches))
    if support == "cumulative":
        return tuple(tuple(range(1, k + 1)) for k in range(num_jumps + 1))
    return tuple((k,) if k else () for k in range(num_jumps + 1))
