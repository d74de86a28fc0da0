"""What was asked for, what made the plan, and whatever else a plan may hold."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import msgspec

from octopipe_cli.diff.change import Change
from octopipe_cli.diff.thresholds import Thresholds
from octopipe_cli.formats import show
from octopipe_cli.plan import Bound, Plan, Request, Search

#: Fields of the request with an id of their own.
_OWN_ID: Final = {"engine": "engine-changed", "num_microbatches": "microbatches-changed"}

#: Fields of plans that other functions compare; every other one is compared as a whole.
_ELSEWHERE: Final = {
    Plan: (
        *("schema", "version", "created_by", "inputs", "request", "predicted", "bound", "p2p", "kinds", "ranks"),
        *("baseline", "stages", "orders", "search", "content_digest", "provenance"),
    ),
    Search: ("stopped_by", "reproducible"),
    Bound: ("step_time_ns", "gap", "scope", "span_ns", "plan_ns"),
}


def compare_request(old: Plan, new: Plan, thresholds: Thresholds) -> Iterator[Change]:
    """Yield what differs in the request, field by field, and how transfers go."""
    for field in Request.__struct_fields__:
        was, now = (msgspec.to_builtins(getattr(plan.request, field)) for plan in (old, new))
        if was != now:
            label = {"num_microbatches": "number of micro-batches"}.get(field, field.replace("_", " "))
            message = f"{label}: {_text(now)} instead of {_text(was)}"
            name = _OWN_ID.get(field, "request-changed")
            yield thresholds.change(name, f"$.request.{field}", message, was, now)
    if old.p2p != new.p2p:
        message = f"transfers are {new.p2p} instead of {old.p2p}"
        yield thresholds.change("p2p-changed", "$.p2p", message, old.p2p, new.p2p)


def compare_origin(old: Plan, new: Plan, thresholds: Thresholds) -> Iterator[Change]:
    """Yield what differs in the octopipe that made the plan and in how its search ended."""
    if old.created_by != new.created_by:
        message = f"made by {new.created_by} instead of {old.created_by}"
        yield thresholds.change("version-changed", "$.created_by", message, old.created_by, new.created_by)
    a, b = old.search, new.search
    if a.stopped_by != b.stopped_by:
        message = f"the search was stopped by {b.stopped_by} instead of {a.stopped_by}"
        yield thresholds.change("stopped-by-changed", "$.search.stopped_by", message, a.stopped_by, b.stopped_by)
    if a.reproducible != b.reproducible:
        name = "reproducible-again" if b.reproducible else "no-longer-reproducible"
        message = f"the same inputs {'give this plan again' if b.reproducible else 'need not give this plan again'}"
        yield thresholds.change(name, "$.search.reproducible", message, a.reproducible, b.reproducible)


def compare_rest(old: Plan, new: Plan, thresholds: Thresholds) -> Iterator[Change]:
    """Yield what differs in fields that no other function looks at; a content digest differs with any of them."""
    sealed = [plan.content_digest is not None for plan in (old, new)]
    if sealed[0] != sealed[1]:
        message = f"the plan has {'a' if sealed[1] else 'no'} content digest{'' if sealed[1] else ' any more'}"
        digests = (old.content_digest, new.content_digest)
        yield thresholds.change("field-changed", "$.content_digest", message, *digests)
    for path, a, b in (("$", old, new), ("$.search", old.search, new.search), ("$.bound", old.bound, new.bound)):
        for field in a.__struct_fields__:
            was, now = msgspec.to_builtins(getattr(a, field)), msgspec.to_builtins(getattr(b, field))
            if field not in _ELSEWHERE[type(a)] and was != now:
                label = field.replace("_", " ")
                message = f"{label}: {_text(now)} instead of {_text(was)}"
                yield thresholds.change("field-changed", f"{path}.{field}", message, was, now)


def _text(value: Any) -> str:
    if isinstance(value, str):
        return value
    return "none" if value is None else show(value)
