"""What `show --why` says of random plans adds up, and what it says would help does."""

from __future__ import annotations

from dataclasses import replace
from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st

from octopipe_cli.bounds import plan_bound_parts
from octopipe_cli.explain import explain
from octopipe_cli.explain.changes import MOST_STAGES, _faster_stage
from octopipe_cli.explain.graph import action_graph
from octopipe_cli.explain.path import critical_path, shortened
from octopipe_cli.explain.waits import waits
from octopipe_cli.pipeline import Pipeline
from octopipe_cli.render.why import why
from octopipe_cli.render.why_document import why_document
from octopipe_cli.simulate import Timeline, simulate

from ..instances import plan_from, random_instance, timeline_of

SEEDS = given(seed=st.integers(0, 2**32))


def random_timeline(seed: int) -> Timeline:
    """Return a timeline, overlapped or blocking in equal parts."""
    rng = Random(seed)
    instance = random_instance(rng, empty_stages=rng.random() < 0.2)
    return timeline_of(instance, rng.choice(("overlapped", "blocking")))


@settings(max_examples=150, deadline=None, derandomize=True)
@SEEDS
def test_the_critical_path_is_as_long_as_the_step(seed: int) -> None:
    timeline = random_timeline(seed)
    graph = action_graph(timeline)
    path = critical_path(graph)
    lags = path.lags_ns()
    assert sum(graph.duration_ns[n] for n in path.numbers) + sum(lags) + path.step_ns == timeline.step_time_ns
    assert path.work_ns + path.transfer_ns == timeline.last_end_ns(path.last_rank)
    assert path.length_in_ns(timeline.pipeline) == timeline.step_time_ns
    assert sum(path.work_by_kind_ns().values()) == sum(path.work_by_rank_ns()) == path.work_ns
    for lag, before, number in zip(lags[1:], path.numbers, path.numbers[1:], strict=False):
        assert before in (graph.previous[number], graph.source[number])
        assert lag in (0, graph.lag_ns[before])
    for runs in (path.runs(), shortened(path.runs(), 1)):
        assert sum(run.num_actions for run in runs) == len(path.numbers)
        assert (runs[0].start_ns, runs[-1].end_ns) == (0, timeline.last_end_ns(path.last_rank))
    assert len(shortened(path.runs(), 1)) <= 3


@settings(max_examples=100, deadline=None, derandomize=True)
@SEEDS
def test_waits_are_all_the_idle_time(seed: int) -> None:
    timeline = random_timeline(seed)
    graph = action_graph(timeline)
    total = [[0, 0, 0] for _ in timeline.orders]
    places = {"before first": 0, "never acts": 0, "between": 1, "sending": 1, "after last": 2}
    for wait in waits(timeline, graph, critical_path(graph)):
        total[wait.rank][places[wait.place]] += wait.total_ns
        assert wait.longest_ns <= wait.total_ns <= wait.count * wait.longest_ns
        if wait.place in ("between", "before first"):
            assert wait.action is not None
            assert graph.start_ns[graph.number_of[wait.action]] == wait.from_ns + wait.longest_ns
    assert total == [list(timeline.bubbles(rank)) for rank in range(len(timeline.orders))]


@settings(max_examples=100, deadline=None, derandomize=True)
@SEEDS
def test_the_parts_of_the_bound_and_of_the_bottleneck_add_up(seed: int) -> None:
    timeline = random_timeline(seed)
    plan = plan_from(random_instance(Random(seed)))
    parts = plan_bound_parts(timeline.pipeline)
    assert parts.total_ns <= timeline.step_time_ns
    assert min(parts.start_ns, parts.work_ns, parts.idle_ns, parts.after_ns) >= 0
    slow = explain(plan, timeline).bottleneck
    whole = slow.before_first_ns + slow.busy_ns + slow.between_ns + slow.step_ns + slow.after_last_ns
    assert whole == timeline.step_time_ns


def shortened_times(rng: Random, pipeline: Pipeline) -> Pipeline:
    stages = tuple(
        replace(
            cost,
            action_ns={kind: rng.choice((time, rng.randint(0, time))) for kind, time in cost.action_ns.items()},
            forward_transfer_ns=rng.randint(0, cost.forward_transfer_ns),
        )
        for cost in pipeline.stages
    )
    return replace(pipeline, stages=stages)


@settings(max_examples=100, deadline=None, derandomize=True)
@SEEDS
def test_replays_are_simulations_and_never_slower_with_less_to_do(seed: int) -> None:
    timeline = random_timeline(seed)
    graph = action_graph(timeline)
    assert graph.replayed_ns(timeline.pipeline) == timeline.step_time_ns
    lighter = shortened_times(Random(seed), timeline.pipeline)
    after = graph.replayed_ns(lighter)
    assert after == simulate(lighter, timeline.orders).step_time_ns
    assert critical_path(graph).length_in_ns(lighter) <= after <= timeline.step_time_ns


@settings(max_examples=60, deadline=None, derandomize=True)
@SEEDS
def test_changes_gain_what_a_simulation_says(seed: int) -> None:
    rng = Random(seed)
    instance = random_instance(rng, empty_stages=rng.random() < 0.2)
    plan, timeline = plan_from(instance), timeline_of(instance)
    explanation = explain(plan, timeline)
    gains = [change.gain_ns for change in explanation.changes]
    assert gains == sorted(gains, reverse=True)
    for change in explanation.changes:
        assert 0 < change.gain_ns <= change.at_best_ns
    every = []
    for stage in range(timeline.pipeline.num_stages):
        changed = _faster_stage(timeline.pipeline, stage)
        every.append(timeline.step_time_ns - simulate(changed, timeline.orders).step_time_ns)
    told = [change.gain_ns for change in explanation.changes if change.what == "stage"]
    best = sorted((gain for gain in every if gain > 0), reverse=True)[:MOST_STAGES]
    assert told[: len(best)] == best
    text = why(plan, explanation, 60).plain
    assert max(map(len, text.splitlines())) <= 60
    assert why_document(explanation)["critical_path"]["work_ns"] == explanation.path.work_ns
