"""The files the plans were made from, as the plans name them."""

from __future__ import annotations

from collections.abc import Iterator

from octopipe_cli.diff.change import Change
from octopipe_cli.diff.thresholds import Thresholds
from octopipe_cli.plan import Plan


def compare_inputs(old: Plan, new: Plan, thresholds: Thresholds) -> Iterator[Change]:
    """Yield whether the plans were made from another profile or cluster: another digest, or another name."""
    for what in ("profile", "cluster"):
        a, b = getattr(old.inputs, what), getattr(new.inputs, what)
        if a == b:
            continue
        if a.digest == b.digest:
            message = f"the {what} is called {b.name} instead of {a.name}; its digest is the same"
        elif a.name == b.name:
            message = f"made from another version of the {what} {b.name}"
        else:
            message = f"made from the {what} {b.name} instead of {a.name}"
        yield thresholds.change(
            f"{what}-changed",
            f"$.inputs.{what}",
            message,
            {"name": a.name, "digest": a.digest},
            {"name": b.name, "digest": b.digest},
        )
