"""Tables, one cell at a time."""

from djgnn.bench.cell import CellResult, run_cell

__all__ = ["CellResult", "run_cell"]
