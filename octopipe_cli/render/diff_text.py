"""A comparison of plans as text."""

from __future__ import annotations

from octopipe_cli.diff.change import PlanDiff
from octopipe_cli.words import visible


def text(reports: list[PlanDiff]) -> str:
    """Return comparisons as plain text, a line a change."""
    lines = []
    for report in reports:
        if report.changes:
            lines.append(visible(f"{report.old_file or 'nothing'} -> {report.new_file or 'nothing'}"))
        for change in report.changes:
            lines.append(visible(f"  {change.effect}  {change.id}: {change.message}"))
            lines += [visible(f"      {line}") for line in change.details]
    return "\n".join(lines) if lines else "no differences"
