"""JUnit XML by the rules of the schema that Jenkins' xUnit plugin checks (model/xsd/junit-10.xsd)."""

from __future__ import annotations

from collections.abc import Callable
from xml.etree import ElementTree

from octopipe_cli.diff.change import PlanDiff
from octopipe_cli.diff.kinds import KINDS
from octopipe_cli.render.diff.junit import JunitFormat
from tests.render.diff.reports import every, hostile, many, regression

#: Element -> (attributes that must be there, others that may, children in their order).
SCHEMA: dict[str, tuple[set[str], set[str], list[str]]] = {
    "testsuites": (set(), {"name", "time", "tests", "failures", "disabled", "errors"}, ["testsuite"]),
    "testsuite": (
        {"name", "tests"},
        {"failures", "errors", "time", "disabled", "skipped", "timestamp", "hostname", "id", "package"},
        ["properties", "testcase", "system-out", "system-err"],
    ),
    "testcase": (
        {"name"},
        {"assertions", "time", "classname", "status", "class", "file", "line"},
        ["skipped", "error", "failure", "system-out", "system-err"],
    ),
    "failure": (set(), {"type", "message"}, []),
    "system-out": (set(), set(), []),
}


def check(element: ElementTree.Element) -> None:
    """Check an element and all below it by the schema."""
    needed, others, children = SCHEMA[element.tag]
    assert needed <= set(element.attrib) <= needed | others, element.tag
    places = [children.index(child.tag) for child in element]
    assert places == sorted(places), element.tag
    assert not list(element) or not (element.text or "").strip()
    for name in ("tests", "failures", "errors", "skipped"):
        assert element.get(name, "0").isdigit()
    float(element.get("time", "0"))
    for child in element:
        check(child)


def written(reports: list[PlanDiff]) -> ElementTree.Element:
    text = JunitFormat().format(reports)
    assert text.startswith('<?xml version="1.0" encoding="UTF-8"?>\n')
    return ElementTree.fromstring(text.encode())


def test_junit(golden: Callable[[str, str], None]) -> None:
    golden("junit.xml", JunitFormat().format(every()))


def test_it_validates() -> None:
    for reports in (every(), [hostile()], [many(50)], []):
        root = written(reports)
        assert root.tag == "testsuites"
        check(root)


def test_a_suite_a_plan_a_case_a_kind() -> None:
    root = written(every())
    assert [len(suite.findall("testcase")) for suite in root] == [len(KINDS)] * 4
    assert [suite.get("tests") for suite in root] == [str(len(KINDS))] * 4
    assert (root.get("tests"), root.get("failures"), root.get("errors")) == (str(4 * len(KINDS)), "1", "0")
    failed = {
        case.get("name"): case.find("failure") for case in root.iter("testcase") if case.find("failure") is not None
    }
    assert list(failed) == ["step-time-slower"]
    failure = failed["step-time-slower"]
    assert failure is not None
    assert failure.get("message") == "the step time grows from 555.0 ms to 675.0 ms (+21.6 %)"
    assert (failure.text or "").startswith("$.predicted.step_time_ns: the step time grows")


def test_failures_of_one_kind_are_one_failure() -> None:
    (suite,) = written([many(6)])
    case = next(case for case in suite if case.get("name") == "order-changed")
    failure, output = case
    assert (failure.get("type"), failure.get("message")) == ("order-changed", "0 text (and 2 more)")
    assert [line.split(":")[0] for line in (failure.text or "").splitlines() if line.startswith("$")] == [
        "$.orders[0]",
        "$.orders[2]",
        "$.orders[4]",
    ]
    assert (output.text or "").count("$.orders[") == 3


def test_nothing_stands_there_that_xml_cannot_hold(capsys: object) -> None:
    text = JunitFormat().format([hostile(), regression()])
    assert not {sign for sign in text if ord(sign) < 32} - {"\n"}
    assert not {"\x1b", "\x00", "\u202e"} & set(text)
