"""Exports against torchtitan: ``OCTOPIPE_TORCHTITAN_PYTHON=... pytest -m engine tests/export``.

The variable names a Python that has torchtitan and torch; without it this one is asked.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from random import Random
from typing import Any

import pytest

from octopipe_cli.export import Options, export, target_named
from octopipe_cli.export.torch_orders import for_torch
from octopipe_cli.formats import Loaded
from octopipe_cli.plan import Plan
from tests.engines.plans import plan_of
from tests.instances import random_orders

pytestmark = pytest.mark.engine


def judged(plan: Plan) -> Any:
    python = os.environ.get("OCTOPIPE_TORCHTITAN_PYTHON", sys.executable)
    found = subprocess.run(
        [python, "-c", "import torchtitan.distributed.pipeline_parallel"], capture_output=True, text=True, check=False
    )
    if found.returncode:
        pytest.skip(f"{python} has no torchtitan: {found.stderr.strip().splitlines()[-1]}")
    text = export(Loaded(plan, "a.plan.json", ""), target_named("torchtitan"), Options())
    question = {"text": text, "ranks": len(plan.ranks), "microbatches": plan.request.num_microbatches}
    judge = Path(__file__).with_name("torchtitan_judge.py")
    done = subprocess.run([python, str(judge)], input=json.dumps(question), capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.parametrize("ranks", [[0, 1, 2, 3], [0, 1, 0, 1, 0, 1], [0, 1, 2, 2, 1, 0], [0, 1, 1, 0]], ids=str)
def test_stages_and_actions_are_where_the_plan_has_them(ranks: list[int]) -> None:
    middle = [["transformer"] * (1 + number % 3) for number in range(len(ranks) - 2)]
    stages = [["embedding", "transformer"], *middle, ["head"]]
    orders = random_orders(Random(len(ranks)), tuple(ranks), 5, [False] * len(ranks))
    plan = plan_of(stages, ranks, orders, 5)
    _, timeline = for_torch(Loaded(plan, "a.plan.json", ""))
    for rank, answer in enumerate(judged(plan)):
        first = {stage: sum(s.count("transformer") for s in stages[:stage]) for stage in range(len(stages))}
        expected = {
            str(stage): sorted(
                [f"layers.{first[stage] + at}" for at in range(kinds.count("transformer"))]
                + ["tok_embeddings"] * ("embedding" in kinds)
                + ["norm", "lm_head"] * ("head" in kinds)
            )
            for stage, kinds in enumerate(stages)
            if ranks[stage] == rank
        }
        assert answer["stages"] == expected
        compute = [token for token in answer["order"] if "_" not in token and "SHARD" not in token]
        assert compute == [str(action) for action in timeline.orders[rank]]
