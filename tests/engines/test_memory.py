from __future__ import annotations

from octopipe_cli.engines.memory import engine_memory
from octopipe_cli.plan import StageBytes

STAGES = [StageBytes(output=10), StageBytes(input=10, output=7), StageBytes(input=7, output=5), StageBytes(input=5)]


def test_between_ranks_both_sides_keep_activation_and_gradient() -> None:
    assert engine_memory(STAGES, [0, 1, 0, 1], 2, 3, "torch") == (6 * (10 + 7 + 5), 6 * (10 + 7 + 5))


def test_on_one_rank_a_boundary_is_kept_once() -> None:
    assert engine_memory(STAGES, [0, 0, 1, 1], 2, 3, "torchtitan") == (6 * (10 + 7), 6 * (7 + 5))
    assert engine_memory(STAGES, [0, 0, 0, 0], 1, 1, "torch") == (2 * (10 + 7 + 5),)


def test_other_engines_keep_nothing_more() -> None:
    assert engine_memory(STAGES, [0, 1, 0, 1], 2, 3, "megatron") == (0, 0)
