"""The annealing: its random numbers, its moves, what it may change, and that its values are schedules."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pytest

from octopipe_cli.list_scheduler import NEVER, list_schedule
from octopipe_cli.pipeline import Assignment, build_pipeline
from octopipe_cli.plan import Request
from octopipe_cli.profile import Profile, profile_document, profile_from_document
from octopipe_cli.search.anneal import Bench, anneal, new_bench, try_rules
from octopipe_cli.search.moves import (
    MOVE_COUNT,
    MOVE_FUSE,
    MOVE_RANKS,
    MOVE_RECOMPUTE,
    copy_candidate,
    draw,
    new_candidate,
    patience,
    same,
)
from octopipe_cli.search.starts import priority_rules
from octopipe_cli.search.tables import build_tables
from octopipe_cli.simulate import simulate

from .test_relaxation import flat, layered

MICROBATCHES = 4
ANY_MOVE = MOVE_RANKS | MOVE_COUNT | MOVE_RECOMPUTE | MOVE_FUSE
LAYERS = ["e", {"repeat": 5, "of": ["a", "b"]}, "h"]


def model(**rules: Any) -> Profile:
    sizes = {"state_bytes": 10, "activation_bytes": 6, "weight_activation_bytes": 3, "output_bytes": 1}
    made = layered(
        LAYERS,
        e={"ns": (1000, 2000, 0), **sizes},
        a={"ns": (3000, 4000, 2000), **sizes},
        b={"ns": (2000, 2000, 2000), **sizes, "workspace_bytes": 2},
        h={"ns": (9000, 9000, 1000), **sizes},
    )
    return profile_from_document({**profile_document(made), "rules": rules}, "profile")


class Annealed:
    """A search from one start on three ranks."""

    def __init__(
        self,
        *,
        profile: Profile | None = None,
        memory_bytes: int | None = None,
        allowed: int = ANY_MOVE,
        most_on_rank: int = 12,
        work: int = 150_000,
        floor: int = 0,
        seed: int = 1,
        by_span: bool = False,
    ) -> None:
        self.profile = profile or model()
        self.cluster = flat(3, None if memory_bytes is None else memory_bytes / 2**30)
        tables = build_tables(self.profile, self.cluster, Request(num_microbatches=MICROBATCHES))
        rules = priority_rules(tables)
        self.bench: Bench = new_bench(12, 3, MICROBATCHES, memory_bytes is not None, seed)
        current = self.bench.current
        current.cuts[:4], current.ranks[:3], current.head[:] = (0, 4, 8, 12), (0, 1, 2), (3, NEVER, 0)
        modes = (False, by_span)
        try_rules(tables, MICROBATCHES, 0, 0, modes, rules, self.bench, 0, 3)
        self.first = int(self.bench.best.head[1])
        self.bench.counts[:] = 0
        anneal(
            tables, (MICROBATCHES, 0), 0, modes, rules, self.bench, allowed, most_on_rank, (work, work), 5000.0, floor,
            (25, 25), False,
        )  # fmt: skip
        self.value = int(self.bench.best.head[1])
        n = int(self.bench.best.head[0])
        self.assignment = Assignment(
            tuple(self.bench.best.cuts[: n + 1].tolist()),
            tuple(self.bench.best.ranks[:n].tolist()),
            tuple(bool(mark) for mark in self.bench.best.recompute[:n]),
        )
        self.fused = tuple(bool(mark) for mark in self.bench.best.fuse[:n])


def test_random_numbers_are_those_of_the_generator() -> None:
    """The first states of xorshift64* by the book, in Python's integers."""
    state, x = np.array([12345], np.int64), 12345
    for below in (2, 10, 1 << 30, 7) * 5:
        x ^= x >> 12
        x = (x ^ (x << 25)) % 2**64
        x ^= x >> 27
        expected = ((x * 2685821657736338717) % 2**64 >> 33) % below
        assert draw(state, below) == expected
        assert int(state[0]) % 2**64 == x


def test_random_numbers_are_even() -> None:
    state = np.array([99], np.int64)
    counts = np.bincount([draw(state, 8) for _ in range(8000)], minlength=8)
    assert counts.min() > 850
    assert counts.max() < 1150


def test_patience_is_exponential() -> None:
    state = np.array([7], np.int64)
    drawn = np.array([patience(state, 1000.0) for _ in range(5000)])
    assert drawn.min() >= 0
    assert 950 < drawn.mean() < 1050
    assert 600 < np.median(drawn) < 790  # the mean times ln 2
    assert patience(state, 0.0) == 0


def test_candidates_are_copied_whole() -> None:
    source, target = new_candidate(5), new_candidate(5)
    source.cuts[:4], source.ranks[:3], source.recompute[:3], source.fuse[:3] = (0, 2, 5, 9), (1, 0, 2), 1, (0, 1, 0)
    source.head[:] = (3, 77, 4)
    copy_candidate(source, target)
    assert target.cuts[:4].tolist() == [0, 2, 5, 9]
    assert (target.ranks[:3].tolist(), target.recompute[:3].tolist()) == ([1, 0, 2], [1, 1, 1])
    assert (target.fuse[:3].tolist(), target.head.tolist()) == ([0, 1, 0], [3, 77, 4])
    source.cuts[1] = 1
    assert target.cuts[1] == 2


@pytest.mark.parametrize("memory_bytes", [None, 120])
@pytest.mark.parametrize("by_span", [False, True])
def test_the_best_is_a_schedule_and_better_than_the_start(memory_bytes: int | None, by_span: bool) -> None:
    found = Annealed(memory_bytes=memory_bytes, by_span=by_span)
    assert found.value < found.first < NEVER
    pipeline = build_pipeline(found.profile, found.cluster, found.assignment, MICROBATCHES)
    tables = build_tables(found.profile, found.cluster, Request(num_microbatches=MICROBATCHES))
    rule = tuple(int(part) for part in priority_rules(tables)[found.bench.best.head[2]])
    assert len(rule) == 3
    orders = list_schedule(pipeline, rule, found.fused, by_span)
    assert orders is not None
    timeline = simulate(pipeline, orders)
    assert (timeline.span_ns if by_span else timeline.step_time_ns) == found.value
    assert timeline.fits
    counts = found.bench.counts.tolist()
    assert counts[0] >= 150_000
    assert counts[1] > counts[2] > counts[3] > 0  # tried, scheduled, accepted


def test_what_a_move_left_as_it_was_is_not_scheduled() -> None:
    """Moves that found nothing to change were scheduled, and took half of all the work."""
    one, other = new_candidate(5, 2), new_candidate(5, 2)
    one.cuts[:4], one.ranks[:3], one.head[:] = (0, 2, 5, 9), (1, 0, 2), (3, 77, 4)
    copy_candidate(one, other)
    other.head[1:] = (99, 1)  # the value and its rule are no part of what is compared
    assert same(one, other)
    for part, at in ((other.cuts, 1), (other.ranks, 2), (other.recompute, 0), (other.fuse, 1), (other.order, 0)):
        part[at] += 1
        assert not same(one, other)
        part[at] -= 1
    assert same(one, other)
    other.head[0] = 2
    assert not same(one, other)
    stuck = Annealed(profile=model(no_cut_after=[0, 1, 2, 4, 5, 6, 8, 9, 10]), allowed=0)
    assert stuck.bench.counts[1] > 1000
    assert stuck.bench.counts[2] == 0  # the only legal cuts are those it has


def test_the_seed_decides() -> None:
    first, again, other = (Annealed(seed=seed) for seed in (3, 3, 4))
    assert (first.value, first.assignment, first.fused) == (again.value, again.assignment, again.fused)
    assert first.bench.counts.tolist() == again.bench.counts.tolist()
    assert first.bench.counts.tolist() != other.bench.counts.tolist()


def test_it_stops_at_the_floor_and_at_the_budget() -> None:
    assert Annealed(floor=NEVER - 1).bench.counts[1] == 0
    assert Annealed(work=10_000).bench.counts[0] < 12_000


def test_only_what_is_allowed_changes() -> None:
    cuts_only = Annealed(allowed=0)
    assert cuts_only.assignment.ranks == (0, 1, 2)
    assert not any(cuts_only.assignment.recompute + cuts_only.fused)
    assert cuts_only.value < cuts_only.first
    ranks = Annealed(allowed=MOVE_RANKS)
    assert ranks.assignment.num_stages == 3
    counts = Annealed(allowed=MOVE_RANKS | MOVE_COUNT)
    assert counts.assignment.num_stages > 3
    assert not any(counts.assignment.recompute + counts.fused)


def test_recomputation_is_found_where_it_is_needed() -> None:
    """A rank of four layers holds 24 bytes a micro-batch and 40 of state; recomputed, 4 and 6 while I runs."""
    found = Annealed(memory_bytes=66, work=400_000)
    assert any(found.assignment.recompute)


@pytest.mark.parametrize("most_on_rank", [1, 2])
def test_ranks_have_no_more_stages_than_they_may(most_on_rank: int) -> None:
    ranks = Annealed(most_on_rank=most_on_rank).assignment.ranks
    assert set(ranks) == {0, 1, 2}
    assert max(ranks.count(rank) for rank in ranks) <= most_on_rank


@pytest.mark.parametrize("seed", range(5))
def test_rules_of_the_profile_are_kept(seed: int) -> None:
    profile = model(same_rank=[[0, 11], [5, 6]], no_cut_after=[0, 1, 4, 8])
    found = Annealed(profile=profile, seed=seed)
    made = found.assignment
    assert found.value < NEVER
    assert all(a < b for a, b in pairwise(made.cuts))
    assert not {cut - 1 for cut in made.cuts} & {0, 1, 4, 8}
    rank_of = [rank for s, rank in enumerate(made.ranks) for _ in made.layers(s)]
    assert rank_of[0] == rank_of[11]
    assert rank_of[5] == rank_of[6]
    assert set(made.ranks) == {0, 1, 2}
