"""A comparison of plans as a document."""

from __future__ import annotations

from typing import Any

import msgspec

from octopipe_cli.diff.change import PlanDiff


def document(reports: list[PlanDiff]) -> dict[str, Any]:
    """Return comparisons as the document that ``octopipe diff --format json`` prints."""
    plans = [
        {
            "old": report.old_file,
            "new": report.new_file,
            "fails": bool(report.failing),
            "changes": msgspec.to_builtins(report.changes),
        }
        for report in reports
    ]
    return {
        "schema": "octopipe.diff",
        "version": 1,
        "fails": any(report.failing for report in reports),
        "plans": plans,
    }
