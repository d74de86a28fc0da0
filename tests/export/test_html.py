from __future__ import annotations

import base64
import hashlib
import json
import re
import shutil
import subprocess
from collections.abc import Callable
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from octopipe_cli.export import Options
from octopipe_cli.export.html import export
from octopipe_cli.export.html_data import safe_json
from octopipe_cli.formats import Loaded
from octopipe_cli.plan import Plan
from octopipe_cli.words import visible
from tests.export.tiny import HOSTILE, hostile, loaded, two_ranks
from tests.render.plans import v_plan, wide_plan


class Page(HTMLParser):
    """The elements of a page, and the text in each kind of them."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.open: list[str] = []
        self.texts: list[tuple[str, str]] = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        if tag != "meta":
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if data.strip():
            self.texts.append((self.open[-1], data))

    def of(self, tag: str) -> list[str]:
        return [text for name, text in self.texts if name == tag]


def page(plan: Loaded[Plan]) -> Page:
    return Page(export(plan, Options()))


def data_of(plan: Loaded[Plan]) -> Any:
    return json.loads(page(plan).of("script")[0])


def test_the_data_is_the_timeline() -> None:
    data = data_of(two_ranks())
    assert (data["step_ns"], data["bound_ns"]) == (94_000_002, 94_000_002 * 100 // 102)
    assert data["ranks"][1]["tokens"] == "1F0 1B0 1F1 1B1"
    assert data["ranks"][1]["start"] == [11_000_001, 21_000_001, 41_000_001, 51_000_001]
    assert data["ranks"][1]["length"] == [10_000_000, 20_000_000, 10_000_000, 20_000_000]
    assert (data["ranks"][0]["step_start"], data["ranks"][0]["step_end"]) == (92_000_002, 94_000_002)
    assert data["stages"][1]["layers"] == [2, 4]
    memory = data["ranks"][0]["memory"]
    assert memory["at"][0] == 0
    assert max(memory["held"]) == data["ranks"][0]["peak"] == 2**29 + 2**27 + 4096


def test_the_figures_stand_in_the_page_itself() -> None:
    found = page(loaded(v_plan()))
    assert found.of("b") == ["555.0 ms", "544.1 ms", "56.8 %", "1.25 x", "1.4 GiB"]
    assert found.of("h1") == ["toy on cluster"]
    assert "a100, node 0; stages 0, 7" in found.of("td")
    assert "mamba, mlp (recomputed)" in found.of("td")


def test_hostile_names_are_only_text() -> None:
    found, plain = page(hostile()), page(loaded(v_plan()))
    assert [tag for tag, _ in found.elements] == [tag for tag, _ in plain.elements]
    assert "img" not in {tag for tag, _ in found.elements}
    assert not [key for _, attributes in found.elements for key in attributes if key.startswith("on")]
    assert found.of("h1")[0].startswith(visible(HOSTILE)[:50])
    data = found.of("script")[0]
    assert not re.search("[<>&\u2028\u2029]", data)
    assert json.loads(data)["stages"][0]["kinds"] == f"2x{visible(HOSTILE)}"


@pytest.mark.parametrize("text", ["</script>", "<!--<script>", "]]>", "&lt;", "\u2028\u2029", "\\u003c"])
def test_data_cannot_end_its_element(text: str) -> None:
    written = safe_json({text: [text]})
    assert not re.search("[<>&\u2028\u2029]", written)
    assert json.loads(written) == {text: [text]}


def test_the_policy_admits_this_script_and_this_style_alone() -> None:
    found = page(two_ranks())
    policies = [a["content"] for _, a in found.elements if a.get("http-equiv") == "Content-Security-Policy"]
    script, style = found.of("script")[1], found.of("style")[0]
    digests = [base64.b64encode(hashlib.sha256(text.encode()).digest()).decode() for text in (script, style)]
    assert policies == [
        f"default-src 'none'; script-src 'sha256-{digests[0]}'; style-src 'sha256-{digests[1]}'; "
        "base-uri 'none'; form-action 'none'"
    ]
    assert not [a for _, a in found.elements if {"src", "href", "style"} & a.keys()]


def test_nothing_from_elsewhere() -> None:
    text = export(two_ranks(), Options())
    assert not re.search(r"https?:|\burl\(|@import|\bimport\(|\bfetch\(|XMLHttpRequest|innerHTML|\beval\(", text)
    assert not re.search(r"(LIGHT|DARK)_", text)  # every colour found its place


def test_large_plans_stay_small() -> None:
    assert len(export(loaded(wide_plan(16, 512)), Options())) < 800_000


def test_golden(golden: Callable[[str, str], None]) -> None:
    text = re.sub(r"(?s)<style>.*</style>|<script>.*</script>|sha256-[^']*", "", export(two_ranks(), Options()))
    golden("two-ranks.html", text)


@pytest.mark.skipif(shutil.which("node") is None, reason="no node to read the script with")
def test_the_script_is_one(tmp_path: Path) -> None:
    file = tmp_path / "viewer.js"
    file.write_text(page(two_ranks()).of("script")[1])
    assert subprocess.run(["node", "--check", str(file)], capture_output=True, check=False).stderr == b""
