"""Supports: which ranks of the jump hierarchy each branch keeps."""

SUPPORTS = ("shell", "paper", "author", "cumulative")


def branch_ranks(support: str, num_jumps: int) -> tuple[tuple[int, ...], ...]:
    r"""The ranks that each branch keeps beside the self loop; rank 1 is the first of the list.

    ============ ========== ======================================================
    support      branches   branch k keeps ranks
    ============ ========== ======================================================
    shell        0..K       0: none; k: rank k (the paper's prose, contribution c)
    paper        0..K       :math:`\Pi^k = 1 - \Pi^{k-1}` on the first k ranks (Eq. 5)
    author       0..K-1     0: none; k: k, k-2, k-4, ... (the published code)
    cumulative   0..K       0: none; k: 1..k
    ============ ========== ======================================================

    The recursion of Eq. 5 starts from the identity, so away from the diagonal, which the self loop
    overwrites anyway, it keeps k, k-2, k-4, ... too: ``paper`` is ``author`` with one branch more.

    Raises:
        ValueError: For an unknown support or fewer than one jump.

    Example:
        >>> branch_ranks("author", 4)
        ((), (1,), (2,), (1, 3))
        >>> branch_ranks("shell", 2)
        ((), (1,), (2,))
    """
    if support not in SUPPORTS:
        raise ValueError(f"support must be one of {', '.join(SUPPORTS)} (got '{support}')")
    if num_jumps < 1:
        raise ValueError(f"num_jumps must be at least 1 (got {num_jumps})")
    if support in ("author", "paper"):
        branches = num_jumps if support == "author" else num_jumps + 1
        return tuple(tuple(range(2 - k % 2, k + 1, 2)) for k in range(branches))
    if support == "cumulative":
        return tuple(tuple(range(1, k + 1)) for k in range(num_jumps + 1))
    return tuple((k,) if k else () for k in range(num_jumps + 1))
