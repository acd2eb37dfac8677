"""Adam takes the steps of torch's own, to the bit, and does not import the compiler."""

import subprocess
import sys

import pytest
import torch

from djgnn.training.cuda_graphs import Captured
from djgnn.training.optimizer import Adam


@pytest.mark.parametrize("decay", [0.0, 0.3])
def test_steps_are_those_of_torch(decay: float) -> None:
    start = torch.randn(5, 3, generator=torch.Generator().manual_seed(0))
    ours, theirs, idle = (torch.nn.Parameter(start.clone()) for _ in range(3))
    groups = [{"params": [ours, idle]}]
    mine = Adam(groups, lr=0.02, weight_decay=decay)
    reference = torch.optim.Adam([theirs], lr=0.02, weight_decay=decay, fused=True)
    for _ in range(7):
        for p, optimizer in ((ours, mine), (theirs, reference)):
            (p**3).sum().backward()
            optimizer.step()
            optimizer.zero_grad()
        assert ours.grad is None
        assert torch.equal(ours, theirs)
    assert torch.equal(idle, start)
    assert sorted(mine.state) == [0]


def test_a_rate_that_changes_is_that_of_the_next_steps() -> None:
    ours, theirs = (torch.nn.Parameter(torch.ones(4)) for _ in range(2))
    mine, reference = Adam([ours], lr=0.1), torch.optim.Adam([theirs], lr=0.1, fused=True)
    for rate in (0.1, 0.2, 0.4):
        mine.set_rate(rate)
        reference.param_groups[0]["lr"] = rate
        for p, optimizer in ((ours, mine), (theirs, reference)):
            (p**2).sum().backward()
            optimizer.step()
            optimizer.zero_grad()
        assert torch.equal(ours, theirs)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU")
def test_a_captured_step_takes_the_rate_of_the_moment() -> None:
    p = torch.nn.Parameter(torch.ones(4, device="cuda"))
    optimizer, captured = Adam([p], lr=0.1), Captured()
    captured.optimizer = optimizer

    def run() -> tuple[torch.Tensor]:
        (p.sum() * 1.0).backward()
        optimizer.step()
        optimizer.zero_grad()
        return (p.detach(),)

    moved = []
    for rate in [0.1] * 6 + [0.0]:
        before = p.detach().clone()
        optimizer.set_rate(rate)
        captured(run)
        moved.append(float((before - p.detach()).abs().max()))
    assert min(moved[:-1]) == pytest.approx(0.1, rel=1e-3)  # of a gradient that stays the same
    assert moved[-1] == 0


def test_groups_have_a_decay_of_their_own() -> None:
    a, b = torch.nn.Parameter(torch.ones(2)), torch.nn.Parameter(torch.ones(2))
    optimizer = Adam([{"params": [a], "weight_decay": 0.0}, {"params": [b]}], weight_decay=1.0)
    for p in (a, b):
        p.grad = torch.zeros(2)
    optimizer.step()
    assert torch.equal(a, torch.ones(2))
    assert (b < 1).all()


def test_restored_moments_continue_as_before() -> None:
    p = torch.nn.Parameter(torch.ones(3))
    optimizer = Adam([p], lr=0.1)
    for _ in range(3):
        (p**2).sum().backward()
        optimizer.step()
        optimizer.zero_grad()
    q = torch.nn.Parameter(p.detach().clone())
    again = Adam([q], lr=0.1)
    again.restore(optimizer.state)
    for each, opt in ((p, optimizer), (q, again)):
        (each**2).sum().backward()
        opt.step()
    assert torch.equal(p, q)


def test_training_does_not_import_the_compiler() -> None:
    code = (
        "import sys\n"
        "from djgnn.graph import heterophilic_sbm, random_splits\n"
        "from djgnn.training import resolve\n"
        "from djgnn.training.inputs import build_djgnn\n"
        "from djgnn.training.run import train\n"
        "graph = random_splits(heterophilic_sbm(60), random_state=0)\n"
        "config = resolve('default', epochs=2, hidden_channels=4)\n"
        "train(*build_djgnn(config, graph), graph, 0, config.training)\n"
        "print('torch._dynamo' in sys.modules)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"
