"""Layouts and orders against megatron-core: ``OCTOPIPE_MEGATRON_PYTHON=... pytest -m engine tests/engines``.

The variable names a Python that has megatron-core and torch; without it this one is asked.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from random import Random
from typing import Any

import pytest

from octopipe_cli.engines.megatron_layout import LETTERS, LayoutSyntaxError, layout_problems, read_layout
from octopipe_cli.engines.megatron_orders import interleaved_1f1b, legal_group_size, one_f_one_b
from octopipe_cli.export import Options, export, target_named
from octopipe_cli.formats import Loaded
from tests.engines.plans import gpt
from tests.engines.test_megatron_layout import REFUSED, TAKEN

pytestmark = pytest.mark.engine

Layout = tuple[str, int, int, int]


def asked(**questions: Any) -> Any:
    python = os.environ.get("OCTOPIPE_MEGATRON_PYTHON", sys.executable)
    found = subprocess.run([python, "-c", "import megatron.core"], capture_output=True, text=True, check=False)
    if found.returncode:
        pytest.skip(f"{python} has no megatron-core: {found.stderr.strip().splitlines()[-1]}")
    judge = Path(__file__).with_name("megatron_judge.py")
    text = json.dumps({"layouts": [], "orders": [], **questions})
    done = subprocess.run([python, str(judge)], input=text, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def ours(text: str, ranks: int, layers: int, mtp: int) -> list[list[str]] | None:
    """Return the stages in words; None where Megatron refuses them, by our reading of its rules."""
    try:
        stages = read_layout(text)
    except LayoutSyntaxError:
        return None
    if any(problem.megatron for problem in layout_problems(stages, ranks, layers, mtp)):
        return None
    return [[LETTERS[letter] for letter in stage] for stage in stages]


def random_layout(rng: Random) -> Layout:
    """Return a layout that may be right: stages of a model, in any notation, now and then with something changed."""
    ranks, chunks = rng.choice((1, 2, 2, 3, 4)), rng.randint(1, 3)
    stages = ["t" * rng.choice((0, 1, 1, 2, 3)) for _ in range(ranks * chunks)]
    mtp = rng.choice((0, 0, 1, 2))
    stages[0] = "E" + stages[0]
    stages[-1] += "m" * mtp + "L"
    text = "|".join(stages)
    layers = text.count("t")
    for letter in "t|m":
        if rng.random() < 0.4:
            text = re.sub(re.escape(letter) + "{2,}", lambda match: f"{match[0][0]}*{len(match[0])}", text)
    if rng.random() < 0.3:
        text = re.sub(r"(t\|)\1+", lambda match: f"(t|)*{len(match[0]) // 2}", text)
    for _ in range(rng.choice((0, 0, 0, 1, 2))):
        at = rng.randrange(len(text) + 1)
        put = rng.choice(("t", "m", "E", "L", "|", "(", ")", "*", "*2", ",", " ", "0", ""))
        text = text[:at] + put + text[at + rng.randint(0, 1) :]
    return text, ranks, layers + rng.choice((0, 0, 0, 0, 1)), mtp


def test_our_reading_is_megatron_s() -> None:
    rng = Random(0)
    sized = [case for case in REFUSED if len(case[0]) < 1000 and "99999" not in case[0]]
    cases = [*TAKEN, *sized, *(random_layout(rng) for _ in range(3000))]
    theirs = asked(layouts=cases)["layouts"]
    differing = [case for case, their in zip(cases, theirs, strict=True) if ours(*case) != their]
    assert differing == []
    taken = sum(each is not None for each in theirs)
    assert min(taken, len(cases) - taken) > 500


def test_exported_layouts_are_built_as_planned() -> None:
    rng = Random(1)
    cases: list[Layout] = []
    planned = []
    for _ in range(200):
        ranks, chunks = rng.choice((1, 2, 3, 4, 8)), rng.randint(1, 4)
        chunks = chunks if ranks > 1 else 1
        stages = ["t" * rng.choice((0, 1, 2, 2, 5)) for _ in range(ranks * chunks)]
        stages[0] = "E" + stages[0]
        stages[-1] += "m" * rng.choice((0, 0, 1, 2)) + "L"
        orders = interleaved_1f1b(ranks, 2 * ranks, chunks) if chunks > 1 else one_f_one_b(ranks, 3)
        plan = gpt("|".join(stages), ranks, orders, 2 * ranks if chunks > 1 else 3)
        text = export(Loaded(plan, "a.plan.json", ""), target_named("megatron"), Options())
        match = re.search(r"--pipeline-model-parallel-layout '(.*)'", text)
        assert match is not None
        cases.append((match[1], ranks, "".join(stages).count("t"), "".join(stages).count("m")))
        planned.append([[LETTERS[letter] for letter in stage] for stage in stages])
    assert asked(layouts=cases)["layouts"] == planned


def test_orders_are_megatron_s() -> None:
    cases = [
        (ranks, chunks, microbatches, size)
        for ranks in (2, 3, 4, 8)
        for chunks in (2, 3, 5)
        for microbatches in (ranks, ranks + 1, 2 * ranks + 1, 3 * ranks)
        for size in range(ranks, microbatches + 1)
        if legal_group_size(size, ranks, microbatches)
    ]
    for (ranks, chunks, microbatches, size), found in zip(cases, asked(orders=cases)["orders"], strict=True):
        orders = interleaved_1f1b(ranks, microbatches, chunks, size)
        for rank, (order, warm_up) in enumerate(zip(orders, found["warm_ups"], strict=True)):
            table = [[m, stage // ranks] for stage, kind, m in order if kind == "F"]
            assert table == found["table"]
            back = [[m, chunks - 1 - stage // ranks] for stage, kind, m in order if kind == "B"]
            assert back == found["table"]
            kinds = "".join(action.kind for action in order)
            # After the warm-up a forward and a backward by turns: the first backward is preceded by one forward more.
            assert kinds.index("B") == min(warm_up + 1, len(table)), (ranks, chunks, microbatches, size, rank)
