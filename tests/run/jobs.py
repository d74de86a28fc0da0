"""Jobs of the engine tests."""

from __future__ import annotations

from typing import Any

from octopipe_cli.export.torch_csv import runnable, with_communication
from octopipe_cli.formats import Loaded
from octopipe_cli.plan import Plan
from octopipe_cli.run.job import Job
from octopipe_cli.run.timed import TimedWorkload, stretched
from tests.run.layers import SmallWorkload


def small_job(plan: Plan, **more: Any) -> Job:
    """Return the job of running a plan with small layers, checked in float64."""
    runs, timeline = runnable(Loaded(plan, "a.plan.json", ""), "torch")
    settings = {"check": True, "tolerance": 1e-9, "timeout_s": 20.0, **more}
    return Job(runs, timeline, with_communication(timeline), SmallWorkload(runs), **settings)


def timed_job(plan: Plan, scale: float, **more: Any) -> Job:
    """Return the job of running a plan's times."""
    runs, timeline = runnable(Loaded(stretched(plan, scale), "a.plan.json", ""), "torch")
    settings = {"timeout_s": 30.0, "warmup": 1, **more}
    return Job(runs, timeline, with_communication(timeline), TimedWorkload(timeline), **settings)
