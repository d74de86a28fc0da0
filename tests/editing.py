"""Changing a document at a place: ``kinds.ff.times.a.forward_ms``, list indices as numbers."""

from __future__ import annotations

import json
from typing import Any, Final

REMOVED: Final = object()


def edited(document: dict[str, Any], changes: dict[str, Any]) -> dict[str, Any]:
    """Return a copy of a document in which other values stand at some places, or nothing (`REMOVED`)."""
    changed: dict[str, Any] = json.loads(json.dumps(document))  # no part of it shared with another
    for path, value in changes.items():
        *steps, last = [int(step) if step.isdigit() else step for step in path.split(".")]
        at: Any = changed
        for step in steps:
            at = at[step]
        if value is REMOVED:
            del at[last]
        else:
            at[last] = value
    return changed
