"""Classic schedules on profiles and clusters: partitions worked out by hand, memory limits, rules."""

from __future__ import annotations

from itertools import combinations
from random import Random
from typing import Any

import pytest

from octopipe_cli.classic import ClassicRow, classic_rows
from octopipe_cli.classic.partition import Balancer, equal_cuts, legal_cuts
from octopipe_cli.cluster import Cluster, cluster_from_document, load_cluster
from octopipe_cli.pipeline import build_pipeline, layer_times
from octopipe_cli.profile import Profile, load_profile, profile_from_document
from octopipe_cli.simulate import simulate

from .instances import SHARED


def profile_of(costs: list[float], rules: dict[str, Any] | None = None, **sizes: int) -> Profile:
    """Return a profile of one layer a cost: F that many ms, I and W as long; `slow` hardware takes twice as long."""
    kinds = {}
    for cost in costs:
        one = {"forward_ms": cost, "backward_input_ms": cost, "backward_weight_ms": cost}
        two = {key: 2 * value for key, value in one.items()}
        kinds[f"k{cost:g}"] = {"times": {"fast": one, "slow": two}, **sizes}
    document = {"schema": "octopipe.profile", "version": 1, "name": "test", "kinds": kinds}
    document |= {"layers": [f"k{cost:g}" for cost in costs]} | ({"rules": rules} if rules else {})
    return profile_from_document(document, "profile")


def cluster_of(*groups: dict[str, Any] | int, **more: Any) -> Cluster:
    """Return a cluster of groups; a number is that many fast ranks without limits."""
    ranks = [{"count": g, "hardware": "fast", "memory_gib": None} if isinstance(g, int) else g for g in groups]
    document = {"schema": "octopipe.cluster", "version": 1, "name": "test", "ranks": ranks, **more}
    return cluster_from_document(document, "cluster")


def by_name(rows: list[ClassicRow]) -> dict[tuple[str, str], ClassicRow]:
    return {(row.schedule, row.partition): row for row in rows}


ALL = ["gpipe", "1f1b", "interleaved-1f1b", "looped-bfs", "zb-h1", "zb-h2", "zb-v", "wave"]


def test_equal_cuts() -> None:
    free = tuple(range(11))
    assert equal_cuts(10, 4, free) == (0, 2, 5, 8, 10)  # 2.5 and 7.5 to the even neighbour
    assert equal_cuts(10, 10, free) == free
    assert equal_cuts(10, 11, free) is None
    assert equal_cuts(10, 2, (0, 4, 6, 10)) == (0, 4, 10)  # 5 is not legal: the left of two as near
    assert equal_cuts(10, 4, (0, 7, 8, 9, 10)) == (0, 7, 8, 9, 10)
    assert equal_cuts(10, 3, (0, 1, 2, 3, 10)) == (0, 2, 3, 10)


def test_legal_cuts() -> None:
    assert legal_cuts(profile_of([1, 1, 1, 1], {"no_cut_after": [0, 2, 3]})) == (0, 2, 4)


def test_balanced_cuts_by_hand() -> None:
    profile = profile_of([1, 1, 1, 1, 4])
    balance = Balancer(profile, cluster_of(2), legal_cuts(profile), split=True, recompute=False)
    assert balance.cuts([0, 1]) == (0, 4, 5)
    slow = cluster_of({"hardware": "slow", "memory_gib": None}, 1)
    assert Balancer(profile, slow, legal_cuts(profile), True, False).cuts([0, 1]) == (0, 2, 5)  # 4 and 6, not 6 and 5
    uniform = profile_of([1] * 5)
    assert Balancer(uniform, cluster_of(3), legal_cuts(uniform), True, False).cuts([0, 1, 2]) == (0, 1, 3, 5)
    assert Balancer(uniform, cluster_of(3), legal_cuts(uniform), True, False).cuts([0] * 6) is None


def test_balanced_cuts_are_the_leftmost_best() -> None:
    """Against trying all cuts, with hardware that differs, cuts that are not allowed and stages that are limited."""
    rng = Random(1)
    for _ in range(150):
        costs = [float(rng.randint(1, 6)) for _ in range(rng.randint(2, 8))]
        banned = [layer for layer in range(len(costs) - 1) if rng.random() < 0.2]
        profile = profile_of(costs, {"no_cut_after": banned})
        cluster = cluster_of(*({"hardware": rng.choice(["fast", "slow"]), "memory_gib": None} for _ in range(3)))
        ranks = [rng.randrange(3) for _ in range(rng.randint(1, 5))]
        split, recompute = rng.random() < 0.5, rng.random() < 0.5
        most = [rng.choice((99, rng.randint(1, 5))) for _ in ranks] if rng.random() < 0.5 else None
        within = None if most is None else [lambda a, b, top=top: b - a <= top for top in most]
        legal = legal_cuts(profile)
        layer = [
            [layer_times(profile.kind_of(i).times[m.hardware], m.speed) for i in range(len(costs))]
            for m in cluster.members
        ]

        def largest(cuts: tuple[int, ...]) -> int:
            return max(
                sum(t.forward * (1 + recompute) + t.backward for t in layer[rank][a:b])  # noqa: B023
                for rank, a, b in zip(ranks, cuts[:-1], cuts[1:], strict=True)  # noqa: B023
            )

        options = [(0, *inner, len(costs)) for inner in combinations(legal[1:-1], len(ranks) - 1)]
        if most is not None:
            options = [c for c in options if all(b - a <= top for a, b, top in zip(c[:-1], c[1:], most, strict=True))]
        expected = min(options, key=lambda cuts: (largest(cuts), cuts), default=None)
        assert Balancer(profile, cluster, legal, split, recompute).cuts(ranks, within) == expected


def test_rows_of_a_uniform_model() -> None:
    rows = classic_rows(profile_of([1.0] * 16), cluster_of(4), 8)
    assert [row.schedule for row in rows] == [name for name in ALL for _ in range(2)]
    assert [row.partition for row in rows] == ["equal", "balanced"] * 8
    milliseconds = {name: row.step_time_ns / 1e6 for (name, part), row in by_name(rows).items() if part == "equal"}
    assert milliseconds["gpipe"] == milliseconds["1f1b"] == 4 * 33
    assert (
        milliseconds["interleaved-1f1b"] == milliseconds["looped-bfs"] == 96 + 3 * 3
    )  # four stages of one layer a rank
    assert milliseconds["zb-h1"] == milliseconds["zb-h2"] == 4 * 27
    assert milliseconds["zb-v"] == 2 * 51
    found = by_name(rows)
    assert found["interleaved-1f1b", "equal"].stages_per_rank == 4
    assert found["wave", "equal"].placement == found["zb-v", "equal"].placement == "v"
    assert [name for name, part in found if part == "equal" and found[name, part].split] == ["zb-h1", "zb-h2", "zb-v"]
    assert not any(row.recompute for row in rows)
    assert found["1f1b", "equal"].bubble_ratio == pytest.approx(1 - 24 / 33)
    assert found["zb-h1", "equal"].span_ns == found["zb-h1", "equal"].timeline.span_ns


def test_rows_are_what_they_say() -> None:
    profile, cluster = (
        profile_of([2.0, 1, 3, 1, 1, 1, 5, 1, 2]),
        cluster_of(2, {"hardware": "slow", "memory_gib": None}),
    )
    rows = classic_rows(profile, cluster, 6)
    assert rows == classic_rows(profile, cluster, 6)
    for row in rows:
        again = simulate(build_pipeline(profile, cluster, row.assignment, 6), row.orders)
        assert (again.step_time_ns, again.peak_memory_bytes) == (row.step_time_ns, row.peak_memory_bytes)
        assert row.assignment.num_stages == 3 * row.stages_per_rank
        assert row.assignment.recompute == (row.recompute,) * row.assignment.num_stages


def test_fewer_layers_than_stages() -> None:
    cluster = cluster_of(4)
    assert {row.schedule for row in classic_rows(profile_of([1.0] * 5), cluster, 4)} == {
        "gpipe",
        "1f1b",
        "zb-h1",
        "zb-h2",
    }
    assert classic_rows(profile_of([1.0] * 3), cluster, 4) == []
    assert classic_rows(profile_of([1.0] * 8, {"no_cut_after": [0, 1, 2, 3, 4]}), cluster, 4) == []


def test_most_stages_a_rank() -> None:
    profile, cluster = profile_of([1.0] * 16), cluster_of(2)
    found = by_name(classic_rows(profile, cluster, 4, max_stages_per_rank=2))
    assert {row.stages_per_rank for row in found.values()} == {1, 2}
    one = classic_rows(profile, cluster, 4, max_stages_per_rank=1)
    assert {row.schedule for row in one} == {"gpipe", "1f1b", "zb-h1", "zb-h2"}


def test_group_size_rule() -> None:
    profile = profile_of([1.0] * 8)
    with_ten = by_name(classic_rows(profile, cluster_of(4), 10))["interleaved-1f1b", "equal"]
    first_group = [action.microbatch for action in with_ten.orders[0][:6]]
    assert first_group == [0, 1, 2, 3, 4, 0]  # N = 5: 10 mod 4 is neither 0 nor 4 or more
    assert "interleaved-1f1b" not in {row.schedule for row in classic_rows(profile, cluster_of(4), 3)}
    assert "interleaved-1f1b" not in {row.schedule for row in classic_rows(profile, cluster_of(1), 3)}


def test_layers_that_must_share_a_rank() -> None:
    profile = profile_of([1.0] * 8, {"same_rank": [[0, 7]]})
    assert {row.schedule for row in classic_rows(profile, cluster_of(2), 4)} == {"zb-v", "wave"}


GIB = 2**30


def limited(gib: float) -> Cluster:
    return cluster_of({"count": 2, "hardware": "fast", "memory_gib": gib})


def test_recomputation_where_nothing_else_fits() -> None:
    """Four layers of 1 GiB activations and 1/8 GiB outputs; 1F1B on two ranks holds 4 GiB on its first."""
    profile = profile_of([1.0] * 4, activation_bytes=GIB, output_bytes=GIB // 8)
    roomy = by_name(classic_rows(profile, limited(6), 4))["1f1b", "equal"]
    assert (roomy.recompute, roomy.fits, max(roomy.peak_memory_bytes)) == (False, True, 4 * GIB + GIB // 8)
    tight = by_name(classic_rows(profile, limited(3.5), 4))["1f1b", "equal"]
    assert (tight.recompute, tight.fits) == (True, True)
    assert tight.step_time_ns == 5 * 2 * 4 * 10**6  # (M + P - 1) (F + B + F again) of two layers
    never = by_name(classic_rows(profile, limited(3.5), 4, recompute="none"))["1f1b", "equal"]
    assert (never.recompute, never.fits) == (False, False)
    always = by_name(classic_rows(profile, limited(6), 4, recompute="full"))
    assert all(row.recompute for row in always.values())


def test_balanced_partition_moves_layers_off_a_full_rank() -> None:
    """Six layers of 1 GiB: 1F1B's first rank holds two micro-batches, so three layers there are too many."""
    profile = profile_of([1.0] * 6, activation_bytes=GIB)
    row = by_name(classic_rows(profile, limited(5), 4, recompute="none"))["1f1b", "balanced"]
    assert (row.assignment.cuts, row.fits) == ((0, 2, 6), True)
    assert row.peak_memory_bytes == (4 * GIB, 4 * GIB)


def test_boundary_tensors_count_too() -> None:
    """Activations alone leave rank 0 at the limit; the gradient that waits there does not fit."""
    profile = profile_of([1.0] * 6, activation_bytes=GIB, output_bytes=GIB // 16)
    cluster = cluster_of({"hardware": "fast", "memory_gib": 6}, {"hardware": "fast", "memory_gib": 10})
    row = by_name(classic_rows(profile, cluster, 4, recompute="none"))["1f1b", "balanced"]
    assert (row.assignment.cuts, row.fits) == ((0, 2, 6), True)


CASES = [("nemotron-nano-v2-9b", 8), ("llama3-8b", 16), ("jamba-52b", 16)]


@pytest.mark.parametrize(("name", "count"), CASES)
@pytest.mark.parametrize("tightness", ["1f1b", "halfway"])
def test_reference_memory_cases(name: str, count: int, tightness: str) -> None:
    folder = SHARED / "reference" / "memory"
    if not folder.is_dir():
        pytest.skip("the reference is not beside this checkout")
    profile = load_profile(str(folder / f"{name}.profile.json")).value
    cluster = load_cluster(str(folder / f"{name}-{tightness}.cluster.json")).value
    rows = by_name(classic_rows(profile, cluster, count))
    assert all(rows[schedule, "balanced"].fits for schedule in ("1f1b", "zb-h1", "zb-v"))
    assert any(row.fits and not row.recompute for row in rows.values())
    if tightness == "1f1b":
        assert rows["1f1b", "equal"].fits
        assert not rows["1f1b", "equal"].recompute
        assert rows["zb-h1", "balanced"].step_time_ns < rows["1f1b", "balanced"].step_time_ns


def test_nemotron_equal_1f1b_is_the_design_s_figure() -> None:
    folder = SHARED / "reference" / "memory"
    if not folder.is_dir():
        pytest.skip("the reference is not beside this checkout")
    profile = load_profile(str(folder / "nemotron-nano-v2-9b.profile.json")).value
    cluster = load_cluster(str(folder / "nemotron-nano-v2-9b-1f1b.cluster.json")).value
    row = by_name(classic_rows(profile, cluster, 8))["1f1b", "equal"]
    assert round(row.step_time_ns / 1e6) == 1293
