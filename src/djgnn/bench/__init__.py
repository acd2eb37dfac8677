"""Tables, one cell at a time, and the block-model study."""

from djgnn.bench.cell import CellResult, run_cell
from djgnn.bench.sbm_claims import Verdict, judge_claims
from djgnn.bench.sbm_study import SbmStudy, run_study

__all__ = ["CellResult", "SbmStudy", "Verdict", "judge_claims", "run_cell", "run_study"]
