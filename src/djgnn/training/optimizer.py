"""Adam, step for step that of torch; its class imports torch's compiler, which takes seconds."""

from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor
from torch.optim.adam import adam

MOMENTS = ("step", "exp_avg", "exp_avg_sq")


class Adam:
    """Fused Adam with the usual momenta, as ``torch.optim.Adam(fused=True)``.

    Args:
        parameters: Parameters, or groups of them with a `weight_decay` of their own.
        lr: Learning rate.
        weight_decay: Decay of parameters whose group says nothing else.
    """

    def __init__(
        self, parameters: Iterable[Any], lr: float = 1e-3, weight_decay: float = 0.0
    ) -> None:
        given = list(parameters)
        groups = given if given and isinstance(given[0], dict) else [{"params": given}]
        usual = {"lr": lr, "weight_decay": weight_decay, "capturable": False}
        self.param_groups: list[dict[str, Any]] = [
            {**usual, **group, "params": list(group["params"])} for group in groups
        ]
        self.state: dict[int, dict[str, Tensor]] = {}

    @property
    def parameters(self) -> list[Tensor]:
        """All parameters, in the order of their numbers in `state`."""
        return [each for group in self.param_groups for each in group["params"]]

    @torch.no_grad()
    def step(self) -> None:
        """One step along the gradients; a parameter without one is left alone."""
        number = 0
        for group in self.param_groups:
            lists: list[list[Tensor]] = [[], [], [], [], []]
            for p in group["params"]:
                if p.grad is not None:
                    held = self._held(number, p)
                    for kept, value in zip(lists, [p, p.grad, *held], strict=True):
                        kept.append(value)
                number += 1
            values, gradients, steps, first, second = lists
            if values:
                adam(
                    values,
                    gradients,
                    first,
                    second,
                    [],
                    steps,
                    fused=True,
                    capturable=group["capturable"],
                    amsgrad=False,
                    beta1=0.9,
                    beta2=0.999,
                    lr=group["lr"],
                    weight_decay=group["weight_decay"],
                    eps=1e-8,
                    maximize=False,
                )

    def _held(self, number: int, p: Tensor) -> tuple[Tensor, ...]:
        """The number of steps and the moments of a parameter."""
        if number not in self.state:
            moments = torch.zeros_like(p), torch.zeros_like(p)
            steps = torch.zeros((), dtype=torch.float32, device=p.device)
            self.state[number] = dict(zip(MOMENTS, (steps, *moments), strict=True))
        return tuple(self.state[number][name] for name in MOMENTS)

    def set_rate(self, rate: float) -> None:
        """Change the learning rate of all steps to come, also of those in a CUDA graph."""
        for group in self.param_groups:
            if not group["params"][0].is_cuda:
                group["lr"] = rate
            elif isinstance(group["lr"], Tensor):
                group["lr"].fill_(rate)
            else:  # a CUDA graph reads it from the device, in single precision
                device = group["params"][0].device
                group["lr"] = torch.tensor(rate, dtype=torch.float32, device=device)

    def zero_grad(self) -> None:
        """Forget the gradients."""
        for p in self.parameters:
            p.grad = None

    def restore(self, state: dict[int, dict[str, Tensor]]) -> None:
        """Take over steps and moments, on the devices of the parameters."""
        own = self.parameters
        self.state = {
            i: {name: value.to(own[i].device, copy=True) for name, value in held.items()}
            for i, held in state.items()
        }
