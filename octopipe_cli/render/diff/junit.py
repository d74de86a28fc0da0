"""A comparison of plans as JUnit XML, as Jenkins and GitLab read it."""

from __future__ import annotations

from collections.abc import Sequence
from xml.etree import ElementTree

from octopipe_cli.diff.change import Change, PlanDiff
from octopipe_cli.diff.kinds import KINDS
from octopipe_cli.render.diff.headline import failing_keys, key_of, subject, summary
from octopipe_cli.render.diff.interface import DiffFormat
from octopipe_cli.words import visible


class JunitFormat(DiffFormat):
    """JUnit XML: a suite for each plan, in it a case for each kind of change, which fails where such a change does."""

    def format(self, reports: Sequence[PlanDiff]) -> str:
        """Return the XML document."""
        root = ElementTree.Element("testsuites", name="octopipe diff")
        for report in reports:
            root.append(_suite(report))
        for name in ("tests", "failures", "errors"):
            root.set(name, str(sum(int(suite.get(name, "0")) for suite in root)))
        ElementTree.indent(root)
        return '<?xml version="1.0" encoding="UTF-8"?>\n' + ElementTree.tostring(root, encoding="unicode") + "\n"


def _suite(report: PlanDiff) -> ElementTree.Element:
    failing = failing_keys(report)
    cases = [_case(name, [c for c in report.changes if c.id == name], failing) for name in KINDS]
    counts = {"tests": len(cases), "failures": sum(case.find("failure") is not None for case in cases), "errors": 0}
    suite = ElementTree.Element("testsuite", name=visible(subject(report)))
    for key, count in {**counts, "skipped": 0}.items():
        suite.set(key, str(count))
    suite.set("time", "0")
    suite.extend(cases)
    ElementTree.SubElement(suite, "system-out").text = visible(summary(report))
    return suite


def _case(name: str, changes: list[Change], failing: set[tuple[str, str, str]]) -> ElementTree.Element:
    """Return the case of a kind: its failing changes as one failure, the others as output."""
    case = ElementTree.Element("testcase", classname="octopipe.diff", name=name, time="0")
    bad = [change for change in changes if key_of(change) in failing]
    good = [change for change in changes if key_of(change) not in failing]
    if bad:
        more = f" (and {len(bad) - 1} more)" if len(bad) > 1 else ""
        failure = ElementTree.SubElement(case, "failure", type=name, message=visible(bad[0].message) + more)
        failure.text = _text(bad)
    if good:
        ElementTree.SubElement(case, "system-out").text = _text(good)
    return case


def _text(changes: list[Change]) -> str:
    lines = []
    for change in changes:
        lines.append(visible(f"{change.path}: {change.message}"))
        lines += [visible(f"  {detail}") for detail in change.details]
    return "\n".join(lines)
