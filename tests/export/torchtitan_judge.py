"""What torchtitan makes of an exported file: run by a Python that has it; the file on stdin, an answer on stdout.

Its stage builder and its loader are asked for each rank in turn, on a process group that sends nothing.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
from typing import Any

import torch
from torch import distributed
from torch.distributed.device_mesh import init_device_mesh
from torch.testing._internal.distributed.fake_pg import FakeStore
from torchtitan.distributed import pipeline_parallel


class Model(torch.nn.Module):
    """A model with torchtitan's names of modules."""

    def __init__(self, layers: int) -> None:
        super().__init__()
        self.tok_embeddings = torch.nn.Linear(1, 1)
        self.layers = torch.nn.ModuleDict({str(number): torch.nn.Linear(1, 1) for number in range(layers)})
        self.norm = torch.nn.Linear(1, 1)
        self.lm_head = torch.nn.Linear(1, 1)


def rank_of(rank: int, asked: dict[str, Any]) -> dict[str, Any]:
    """Return a rank's stages, the modules in them and the actions it runs."""
    settings = asked["parallelism"]()
    ranks = settings.pipeline_parallel_degree
    distributed.init_process_group("fake", store=FakeStore(), rank=rank, world_size=ranks)
    mesh = init_device_mesh("cpu", (ranks,), mesh_dim_names=("pp",))
    names = [name for names in asked["MODULES"] for name in names]
    stages, models = pipeline_parallel._pipeline_module_split(
        Model(sum(name.startswith("layers.") for name in names)),
        mesh,
        settings.pipeline_parallel_schedule,
        torch.device("cpu"),
        settings.module_fqns_per_model_part,
    )
    schedule = pipeline_parallel._build_pipeline_schedule(
        parallelism=settings, local_batch_size=asked["microbatches"], stages=stages, loss_fn=lambda *_: (None, None)
    )
    order = [str(action) for action in schedule.pipeline_order_with_comms[rank]]
    distributed.destroy_process_group()
    held = {
        stage.stage_index: sorted(
            name.removesuffix(".weight") for name, _ in model.named_parameters() if "weight" in name
        )
        for stage, model in zip(stages, models, strict=True)
    }
    return {"stages": held, "order": order}


def main() -> None:
    """Answer for every rank of the file on stdin."""
    question = json.load(sys.stdin)
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        exec(compile(question["text"], "plan.py", "exec"), {"__name__": "__main__"})  # writes schedule.csv
        asked: dict[str, Any] = {"__name__": "plan", "microbatches": question["microbatches"]}
        exec(compile(question["text"], "plan.py", "exec"), asked)
        answer = [rank_of(rank, asked) for rank in range(question["ranks"])]
    json.dump(answer, sys.stdout)


if __name__ == "__main__":
    main()
