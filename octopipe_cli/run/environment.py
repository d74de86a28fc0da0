"""Whether a plan can be run here: torch, devices, torchrun."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Final

from octopipe_cli.errors import InputError

#: What torchrun tells the processes it starts.
TORCHRUN: Final = ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")


def check_torch(device: str, local_ranks: int) -> str:
    """Return the device to run on: cuda where asked for, or where there are GPUs enough and no other is asked for.

    Raises
    ------
    InputError
        Where torch is missing, too old to run plans, or has not the device.
    """
    os.environ.setdefault("PYTORCH_NVML_BASED_CUDA_CHECK", "1")  # looking for GPUs must not keep us from forking
    try:
        import torch
        from torch.distributed.pipelining import schedules
    except ImportError as error:
        raise InputError(
            f"running a plan needs torch: {error.name or error} is not installed",
            remedy="pip install 'octopipe[torch]'",
        ) from None
    if not hasattr(schedules, "_PipelineScheduleRuntime") or not hasattr(schedules, "REDUCE_GRAD"):
        raise InputError(
            f"torch {torch.__version__} cannot run plans: its pipelining runtime lacks REDUCE_GRAD",
            remedy="pip install 'torch>=2.10'",
        )
    count = torch.cuda.device_count()
    if device == "auto":
        return "cuda" if count >= local_ranks else "cpu"
    if device == "cuda" and count < local_ranks:
        raise InputError(
            f"{local_ranks} ranks need a GPU each", path="--device", found=f"{count} GPUs", remedy="use --device cpu"
        )
    return device


def under_torchrun(environment: Mapping[str, str] = os.environ) -> tuple[int, int] | None:
    """Return rank and number of ranks where torchrun has started this process; None elsewhere."""
    if not all(name in environment for name in TORCHRUN):
        return None
    return int(environment["RANK"]), int(environment["WORLD_SIZE"])
