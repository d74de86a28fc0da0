"""The comment: its text as a golden file, its markup as a parser sees it."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from markdown_it import MarkdownIt
from markdown_it.token import Token

from octopipe_cli.diff.change import PlanDiff
from octopipe_cli.render.diff.markdown import LIMIT, MarkdownFormat, escaped
from tests.render.diff.reports import HOSTILE, before, every, hostile, many, regression, unchanged

PARSER = MarkdownIt("commonmark").enable(["table", "strikethrough"])
#: Kinds of tokens that our own text is made of.
OURS = {
    *("heading_open", "heading_close", "paragraph_open", "paragraph_close", "inline", "html_block"),
    *("table_open", "thead_open", "tr_open", "th_open", "tbody_open", "td_open"),
    *("table_close", "thead_close", "tr_close", "th_close", "tbody_close", "td_close"),
    *("bullet_list_open", "list_item_open", "bullet_list_close", "list_item_close"),
    *("text", "strong_open", "strong_close", "code_inline", "text_special"),
}


def tokens(text: str) -> list[Token]:
    return [token for block in PARSER.parse(text) for token in (block, *(block.children or ()))]


def shown(text: str) -> str:
    """Return what a reader sees of one line."""
    return "".join(token.content for token in tokens(text) if token.type in ("text", "text_special", "code_inline"))


def test_markdown(golden: Callable[[str, str], None]) -> None:
    golden("markdown.md", MarkdownFormat().format(every()))
    golden("markdown-hostile.md", MarkdownFormat().format([hostile()]))


def test_it_renders_on_its_own() -> None:
    found = tokens(MarkdownFormat().format(every()))
    assert {token.type for token in found} <= OURS
    headings = [found[at + 1].content for at, token in enumerate(found) if token.type == "heading_open"]
    assert headings == [
        "main:plans/toy.plan.json → plans/toy.plan.json",
        "main:plans/gone.plan.json (deleted)",
        "plans/new.plan.json (new)",
    ]
    html = [token.content.strip() for token in found if token.type == "html_block"]
    assert html == ["<details><summary>All changes</summary>", "</details>"] * 3
    assert sum(token.type == "table_open" for token in found) == 3
    rows = [token for token in found if token.type == "tr_open"]
    cells = [token for token in found if token.type in ("td_open", "th_open")]
    assert len(cells) == 4 * len(rows)


def test_what_fails_stands_above_the_fold() -> None:
    head, folded = MarkdownFormat().format([regression()]).split("<details>")
    assert "- `step-time-slower`: the step time grows from 555.0 ms to 675.0 ms (+21.6 %)\n" in head
    assert "| step time | 555.0 ms | 675.0 ms | +21.6 % |\n" in head
    assert "span-longer" in folded
    assert "span-longer" not in head


def test_names_do_no_harm() -> None:
    text = MarkdownFormat().format([hostile()])
    found = tokens(text)
    assert {token.type for token in found} <= OURS
    assert [token.content.strip() for token in found if token.type == "html_block"] == [
        "<details><summary>All changes</summary>",
        "</details>",
    ]
    assert not {"@all", "#1", "!2", "GH-3", "://", "www."} & {
        mark for mark in ("@all", "#1", "!2", "GH-3", "://", "www.") if mark in text
    }
    assert not {"\x1b", "\r", "\x00", "\u202e"} & set(text)


@pytest.mark.parametrize(
    "text",
    [
        "1. x",
        "12) x",
        "# x",
        "- x",
        "+ x",
        "=",
        "> x",
        "* x",
        "```",
        "| a |",
        "    code",
        "\\",
        "&lt;",
        "[x]: y",
        "---",
    ],
)
def test_an_item_is_shown_as_it_stands(text: str) -> None:
    item = f"- `id`: x\n  - {escaped(text)}\n"
    types = [token.type for token in tokens(item)]
    assert types.count("bullet_list_open") == 2
    assert set(types) <= OURS - {"heading_open", "html_block"}
    assert shown(f"- {escaped(text)}") == text.strip()


def test_figures_are_not_escaped() -> None:
    for text in ("555.0 ms", "+21.6 %", "-3.0 %", "0.59 GiB (rank 0)"):
        assert escaped(text) == text


def test_in_one_line_and_cut() -> None:
    assert "\n" not in escaped(HOSTILE)
    assert len(escaped("x" * 5000)) == 1000


@pytest.mark.parametrize(
    "reports",
    [
        [many(5000)],
        [many(40, HOSTILE * 100)],
        [many(30, "x" * 300) for _ in range(60)],
        [regression()] * 400,
        [hostile()] * 100,
    ],
    ids=["changes", "hostile", "plans", "small-plans", "hostile-plans"],
)
def test_it_is_cut_to_what_github_takes(reports: list[PlanDiff]) -> None:
    text = MarkdownFormat().format(reports)
    assert LIMIT // 3 < len(text) <= LIMIT
    assert "_Cut: " in text or "_cut: " in text
    found = [token.content.strip() for token in tokens(text) if token.type == "html_block"]
    assert found == ["<details><summary>All changes</summary>", "</details>"] * (len(found) // 2)


def test_plans_that_fail_come_first_when_it_is_cut() -> None:
    fine = PlanDiff("a", "fine.json", before(), before(), many(4000).changes, [])
    text = MarkdownFormat().format([fine, fine, regression()])
    assert text.startswith("### main:plans/toy.plan.json")


def test_nothing_changed() -> None:
    assert MarkdownFormat().format([unchanged()]) == "1 plan unchanged.\n"
    assert MarkdownFormat().format([unchanged()] * 2) == "2 plans unchanged.\n"
    assert MarkdownFormat().format([]) == "No plan differs.\n"
