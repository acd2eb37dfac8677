"""J^k = support x coefficients on a fixed-width table, and the aggregation through it."""

from djgnn.filters.aggregate import (
    aggregate,
    aggregate_rows,
    dense_aggregate,
    dense_normalize,
)
from djgnn.filters.dense import dense_filters
from djgnn.filters.support import SUPPORTS, branch_ranks
from djgnn.filters.table import FilterTable, filter_table

__all__ = [
    "SUPPORTS",
    "FilterTable",
    "aggregate",
    "aggregate_rows",
    "branch_ranks",
    "dense_aggregate",
    "dense_filters",
    "dense_normalize",
    "filter_table",
]
