"""Who is there, what they agree on, and whose rows are whose."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import jobs
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from processes import run_group

from djgnn.cli.fit import LAUNCH, checkpoint_folder, is_restart
from djgnn.errors import InputError
from djgnn.training.distributed import Group, join
from djgnn.training.distributed.shard import ROW_COST, Shard
from djgnn.training.folder import RESULT

WHOLE = {
    "RANK": "1",
    "WORLD_SIZE": "2",
    "LOCAL_RANK": "1",
    "MASTER_ADDR": "127.0.0.1",
    "MASTER_PORT": "29500",
}


def test_the_environment_of_torchrun_is_read() -> None:
    group = Group.from_environment({**WHOLE, "TORCHELASTIC_RESTART_COUNT": "3"})
    assert (group.rank, group.size, group.local_rank, group.restarts) == (1, 2, 1, 3)
    assert not group.first
    assert Group.from_environment({"MASTER_ADDR": "a"}).alone
    with join(environment={**WHOLE, "RANK": "0", "WORLD_SIZE": "1"}) as alone:
        assert alone.alone
        assert not torch.distributed.is_initialized()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"WORLD_SIZE": None}, r"must all be set.* torchrun.*\(got RANK='1', LOCAL_RANK='1'"),
        ({"MASTER_ADDR": None, "MASTER_PORT": None}, r"MASTER_ADDR, MASTER_PORT must all be set"),
        ({"RANK": "2"}, r"RANK below WORLD_SIZE.*\(got RANK='2', WORLD_SIZE='2'"),
        ({"RANK": "one"}, r"whole numbers.*\(got RANK='one'"),
    ],
)
def test_half_an_environment_is_refused(changes: dict[str, str | None], message: str) -> None:
    given_ = {k: v for k, v in {**WHOLE, **changes}.items() if v is not None}
    with pytest.raises(InputError, match=message):
        Group.from_environment(given_)


def test_processes_agree_and_fail_together() -> None:
    found = run_group(2, jobs.agreements)
    for rank, process in enumerate(found):
        assert process["any"] == (True, False)
        assert process["shared"] == ("from", 0)
        assert process["together"] == rank
    assert found[0]["one"] == ("InputError", "process 1: file: cannot be read (got nothing)")
    assert found[1]["one"] == ("InputError", "file: cannot be read (got nothing)")
    assert found[0]["first"][0] == "IsADirectoryError"
    assert found[1]["first"][0] == "ProcessLostError"
    assert "process 0 failed" in found[1]["first"][1]


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.integers(0, 50), min_size=1, max_size=40),
    st.integers(1, 8),
)
def test_shards_cover_all_nodes_and_are_balanced(edges: list[int], size: int) -> None:
    work = np.array(edges) + ROW_COST
    shard = Shard.balanced(np.array(edges), size, 0)
    assert shard.bounds[0] == 0
    assert shard.num_nodes == sum(shard.sizes) == len(edges)
    assert min(shard.sizes) >= 0
    for first, last in zip(shard.bounds, shard.bounds[1:], strict=False):
        assert work[first:last].sum() <= work.sum() / size + work.max()


def test_counts_are_those_of_the_owners() -> None:
    shard = Shard((0, 2, 2, 5), rank=2)
    assert shard.counts(torch.tensor([0, 1, 2, 4])) == [2, 0, 2]
    assert shard.counts(torch.tensor([0, 5, 6, 14]), factor=3) == [2, 0, 2]
    assert shard.counts(torch.empty(0, dtype=torch.int64)) == [0, 0, 0]


def test_which_run_is_restarted(tmp_path: Path) -> None:
    out, place = tmp_path / "run", checkpoint_folder(tmp_path / "run")
    fresh, again = Group(launch="a"), Group(launch="a", restarts=1)
    assert not is_restart(out, fresh)
    assert not is_restart(out, again), "it was lost before it began"
    place.mkdir()
    (place / LAUNCH).write_text("a", "utf-8")
    assert is_restart(out, again)
    assert is_restart(out, again, overwrite=True)
    assert is_restart(out, fresh), "processes joined or left: the same run"
    assert not is_restart(out, Group(launch="b")), "another run must say --resume"
    assert not is_restart(out, Group())
    (place / LAUNCH).write_text("none", "utf-8")
    assert not is_restart(out, Group(launch="none")), "no name at all"
    (place / LAUNCH).write_bytes(b"\xff")
    assert not is_restart(out, fresh), "not text"
    (place / LAUNCH).unlink()
    os.mkfifo(place / LAUNCH)
    assert not is_restart(out, fresh), "nobody writes into the pipe"
    shutil.rmtree(place)
    out.mkdir()
    (out / RESULT).write_text("{}", "utf-8")
    assert is_restart(out, again), "all was written before the process was lost"
    assert not is_restart(out, again, overwrite=True), "this may be the old run"
    assert not is_restart(out, fresh)
