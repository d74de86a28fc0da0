"""Starts keep layers together that must share a rank."""

from __future__ import annotations

import numpy as np
import pytest

from octopipe_cli.pipeline import Assignment
from octopipe_cli.plan import Request
from octopipe_cli.search.starts import starts
from octopipe_cli.search.tables import Tables, build_tables
from octopipe_cli.search.together import keep_together

from .test_anneal import model
from .test_relaxation import flat

EVEN = np.full(12, 10, np.int64)


def tables(*groups: list[int], no_cut_after: tuple[int, ...] = ()) -> Tables:
    profile = model(same_rank=list(groups), no_cut_after=list(no_cut_after))
    return build_tables(profile, flat(3), Request(num_microbatches=2))


def assignment(cuts: tuple[int, ...], ranks: tuple[int, ...]) -> Assignment:
    return Assignment(cuts, ranks, (False,) * len(ranks))


def test_what_keeps_the_rules_stays() -> None:
    made = assignment((0, 2, 6, 10, 12), (0, 1, 2, 0))
    assert keep_together(tables([0, 11], [3, 4]), EVEN, made, True) is made


def test_stages_go_to_one_rank() -> None:
    made = assignment((0, 2, 4, 6, 8, 10, 12), (0, 1, 2, 0, 1, 2))
    found = keep_together(tables([0, 11]), EVEN, made, True)
    assert found == assignment((0, 2, 4, 6, 8, 10, 12), (0, 1, 2, 0, 1, 0))
    # groups that meet in a stage are one
    found = keep_together(tables([0, 3], [2, 11]), EVEN, made, True)
    assert found == assignment((0, 2, 4, 6, 8, 10, 12), (0, 0, 2, 0, 1, 0))


def test_a_rank_left_without_a_stage_gets_one() -> None:
    found = keep_together(tables([5, 10]), EVEN, assignment((0, 3, 6, 9, 12), (0, 1, 0, 2)), True)
    assert found == assignment((0, 3, 6, 9, 12), (2, 1, 0, 1))


def test_no_more_stages_than_a_rank_may_have() -> None:
    made = assignment((0, 2, 4, 6, 8, 10, 12), (0, 1, 2, 0, 1, 2))
    assert keep_together(tables([0, 11]), EVEN, made, True, 3) is not None
    assert keep_together(tables([0, 11]), EVEN, made, True, 2) is None  # rank 0 would have three


def test_cuts_move_where_ranks_are_given() -> None:
    made = assignment((0, 4, 8, 12), (0, 1, 2))
    assert keep_together(tables([3, 4]), EVEN, made, False) == assignment((0, 5, 8, 12), (0, 1, 2))
    assert keep_together(tables([3, 4], no_cut_after=(4,)), EVEN, made, False) == assignment((0, 6, 9, 12), (0, 1, 2))
    assert keep_together(tables([0, 11]), EVEN, made, False) is None
    assert keep_together(tables([0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10]), EVEN, made, False) is None


@pytest.mark.parametrize("placement", ["free", "cyclic", "v"])
def test_starts_keep_the_rules(placement: str) -> None:
    groups = ([0, 1, 2, 3], [7, 8])
    request = Request(num_microbatches=2, placement=placement)
    found = starts(tables(*groups), request, False)
    assert len(found) >= 2
    for start in found:
        rank_of = [rank for s, rank in enumerate(start.assignment.ranks) for _ in start.assignment.layers(s)]
        assert all(len({rank_of[layer] for layer in group}) == 1 for group in groups)
        assert set(rank_of) == {0, 1, 2}
