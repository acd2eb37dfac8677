"""A run folder that was changed on purpose vouches for its files again."""

import json
from pathlib import Path

from djgnn.training.card import RESULT, write_card


def reseal(folder: Path) -> None:
    write_card(folder, json.loads((folder / RESULT).read_text("utf-8")))
