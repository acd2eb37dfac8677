"""The study is a folder of `benchmarks`, not a package: it is put on the path."""

from __future__ import annotations

import sys
from pathlib import Path

FOLDER = str(Path(__file__).resolve().parents[2] / "benchmarks" / "protocol_effects")
if FOLDER not in sys.path:
    sys.path.insert(0, FOLDER)
