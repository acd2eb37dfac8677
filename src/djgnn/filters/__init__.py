"""J^k = support x coefficients on a fixed-width table, and the aggregation through it."""

from djgnn.filters.aggregate import aggregate, aggregate_rows
from djgnn.filters.support import SUPPORTS, branch_ranks
from djgnn.filters.table import FilterTable, filter_table

__all__ = [
    "SUPPORTS",
    "FilterTable",
    "aggregate",
    "aggregate_rows",
    "branch_ranks",
    "filter_table",
]
