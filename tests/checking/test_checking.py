"""One dialect of checking values: what fits, what does not, and what is said of it."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Literal, NotRequired, TypedDict

import numpy as np
import pytest

from djgnn.checking import (
    Count,
    NonNegative,
    Positive,
    Rate,
    Score,
    Text,
    check_fields,
    check_file,
    check_names,
    describe,
)
from djgnn.errors import InputError


@dataclass(frozen=True)
class Config:
    layers: Count = 1
    lr: Positive = 0.1
    dropout: Rate = 0.5
    decay: NonNegative | None = None
    support: Literal["shell", "paper"] = "shell"
    gate: bool = True
    factors: Literal["balanced"] | tuple[NonNegative, ...] | None = None

    def __post_init__(self) -> None:
        check_fields(self)


class Result(TypedDict):
    test: Score | None


class Card(TypedDict):
    name: Text
    result: Result
    splits: NotRequired[list[Result]]
    versions: dict[str, Text]


GOOD = {"name": "a", "result": {"test": None}, "versions": {"torch": "2"}, "further": 1}


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"layers": 0}, "layers must be a whole number of at least 1"),
        ({"layers": True}, "got True"),
        ({"layers": 1.5}, "layers must be"),
        ({"layers": 2**70}, "layers must be"),
        ({"lr": 0.0}, "lr must be a positive number"),
        ({"lr": math.nan}, "lr must be"),
        ({"lr": math.inf}, "lr must be"),
        ({"lr": "fast"}, "(got 'fast')"),
        ({"dropout": 1.0}, "dropout must be at least 0 and below 1 (got 1.0)"),
        ({"support": "shel"}, "support must be one of shell, paper (got 'shel')"),
        ({"gate": 1}, "gate must be true or false (got 1)"),
        ({"decay": -1.0}, "or null (got -1.0)"),
        ({"factors": [1.0, -2.0]}, "factors must be"),
    ],
)
def test_a_configuration_says_which_field_is_wrong_and_what_came(
    changes: dict[str, Any], words: str
) -> None:
    with pytest.raises(ValueError) as caught:
        Config(**changes)
    assert words in str(caught.value)


def test_values_are_normalised() -> None:
    config = Config(layers=np.int64(3), lr=1, factors=[1, 2])  # type: ignore[arg-type]
    assert (config.layers, type(config.layers)) == (3, int)
    assert (config.lr, type(config.lr)) == (1.0, float)
    assert config.factors == (1.0, 2.0)


def test_unknown_names_are_refused_with_the_known_ones() -> None:
    check_names(Config, {"lr": 1})
    with pytest.raises(ValueError, match="Config has no option 'rl'; it has layers, lr"):
        check_names(Config, {"rl": 1})


def test_a_good_file_passes_and_may_have_further_fields() -> None:
    check_file(GOOD, Card, "card.json", "run again")
    check_file({**GOOD, "splits": [{"test": 3}]}, Card, "card.json", "run again")


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ([], "damaged, it must be an object; run again (got a list of 0)"),
        ({**GOOD, "name": 3}, "damaged, name must be text; run again (got 3)"),
        ({**GOOD, "name": "\ud800"}, "name must be text"),
        ({**GOOD, "result": {"test": 101}}, "result.test must be a score from 0 to 100, or null"),
        ({**GOOD, "result": {}}, "result.test must be a score from 0 to 100, or null; run again"),
        ({**GOOD, "result": 3}, "result must be an object"),
        ({**GOOD, "splits": [{"test": 3}, {"test": "x"}]}, "splits[1].test must be"),
        ({**GOOD, "splits": 3}, "splits must be a list of objects"),
        ({**GOOD, "versions": {"torch": 2}}, "versions must be an object, each value text"),
    ],
)
def test_a_damaged_file_is_named_with_field_want_remedy_and_value(values: Any, words: str) -> None:
    with pytest.raises(InputError) as caught:
        check_file(values, Card, "card.json", "run again")
    assert str(caught.value).startswith("card.json: damaged, ")
    assert words in str(caught.value)


def test_every_annotation_has_words() -> None:
    assert describe(Literal["a"] | None) == "a, or null"
    assert describe(tuple[Count, ...]).startswith("a list, each a whole number")
