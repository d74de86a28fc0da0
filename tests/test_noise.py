"""Drawn times and their replay: without noise the simulator's, with it as by hand."""

from __future__ import annotations

from random import Random

import numpy as np
import pytest

from octopipe_cli.noise import Noise, quantile
from octopipe_cli.pipeline import build_pipeline
from octopipe_cli.profile import Profile
from octopipe_cli.simulate import simulate

from .instances import loaded_cluster, loaded_profile, random_instance

CLUSTER = {"schema": "octopipe.cluster", "version": 1, "name": "c", "ranks": [{"hardware": "x", "memory_gib": None}]}


@pytest.mark.parametrize("seed", range(40))
def test_without_noise_the_replay_is_the_simulators(seed: int) -> None:
    instance = random_instance(Random(seed), empty_stages=seed % 4 == 0)
    profile, cluster = loaded_profile(instance.profile).value, loaded_cluster(instance.cluster).value
    pipeline = build_pipeline(profile, cluster, instance.assignment, instance.num_microbatches)
    timeline = simulate(pipeline, instance.orders)
    times = Noise(profile, cluster, 0, 3, 0).step_times_ns(instance.assignment, timeline)
    assert times.tolist() == [timeline.step_time_ns] * 3


def one_kind(**more: float) -> Profile:
    times = {"forward_ms": 1, "backward_input_ms": 2, "backward_weight_ms": 3, **more}
    kinds = {"a": {"times": {"x": times}}}
    document = {"schema": "octopipe.profile", "version": 1, "name": "p", "kinds": kinds, "layers": ["a", "a"]}
    return loaded_profile(document).value


@pytest.mark.parametrize("whole", [{}, {"backward_ms": 4.0}])
def test_layers_of_a_kind_are_off_together_and_passes_apart(whole: dict[str, float]) -> None:
    from octopipe_cli.pipeline import Assignment
    from octopipe_cli.plan import Action

    profile, cluster = one_kind(**whole), loaded_cluster(CLUSTER).value
    assignment = Assignment((0, 2), (0,), (False,))
    orders = ((Action(0, "F", 0), Action(0, "B", 0)),)
    noise = Noise(profile, cluster, 10, 50, 3)
    times = noise.step_times_ns(assignment, simulate(build_pipeline(profile, cluster, assignment, 1), orders))
    f, i, w = np.exp(0.1 * np.random.default_rng(3).standard_normal((1, 3, 50))[0])
    nearest = [np.rint(ms * 1e6 * factor) for ms, factor in ((1, f), (2, i), (3, w))]
    backward = np.rint(4e6 * (2 * i + 3 * w) / 5) if whole else nearest[1] + nearest[2]
    assert times.tolist() == (2 * nearest[0] + 2 * backward).astype(int).tolist()
    assert 0.05 < np.log(f).std() < 0.15


def test_quantiles_are_drawn_times() -> None:
    times = np.arange(200, 0, -1)
    assert (quantile(times, 50), quantile(times, 95), quantile(times, 100)) == (100, 190, 200)
    assert quantile(np.array([7]), 50) == 7
