"""U = f(A): the diffusion pump and its two losses."""

from djgnn.pump.pump import (
    DiffusionPump,
    PumpOutput,
    orthogonality_loss,
    pump,
    trace_ratio_loss,
)

__all__ = ["DiffusionPump", "PumpOutput", "orthogonality_loss", "pump", "trace_ratio_loss"]
