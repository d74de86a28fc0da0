from __future__ import annotations

import hashlib
import json
import os
import stat
from pathlib import Path
from typing import Any

import pytest

from octopipe_cli import formats
from octopipe_cli.errors import InputError
from tests import documents


def failure(call: Any, *arguments: Any) -> InputError:
    with pytest.raises(InputError) as caught:
        call(*arguments)
    return caught.value


# --- reading


def test_a_byte_order_mark_and_other_line_ends_are_read(tmp_path: Path) -> None:
    file = tmp_path / "a.json"
    file.write_bytes(b'\xef\xbb\xbf{\r\n"a": "\xc3\xa4"}\r\n')
    assert formats.parse_json(formats.read_text(str(file)), "a") == {"a": "ä"}


def test_bytes_that_are_no_utf8_are_named(tmp_path: Path) -> None:
    file = tmp_path / "latin.json"
    file.write_bytes(b'{"a": "\xe4"}')
    error = failure(formats.read_text, str(file))
    assert (error.file, error.found) == (str(file), "byte 0xe4 at offset 7")


def test_a_folder_a_missing_file_and_an_odd_name_cannot_be_read(tmp_path: Path) -> None:
    assert "Is a directory" in failure(formats.read_text, str(tmp_path)).message
    assert failure(formats.read_text, str(tmp_path / "none")).message == "no such file"
    assert failure(formats.read_text, "").file == '"" (an empty name)'
    assert "null" in failure(formats.read_text, "a\0b").message


def test_a_file_beyond_the_limit_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "large.json"
    file.write_text("[1, 2]")
    monkeypatch.setattr(formats, "MAX_FILE_BYTES", 6)
    assert formats.read_text(str(file)) == "[1, 2]"
    monkeypatch.setattr(formats, "MAX_FILE_BYTES", 5)
    assert failure(formats.read_text, str(file)).message == "the file is too large"


def test_more_values_than_memory_should_hold_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(formats, "MAX_VALUES", 3)
    assert formats.parse_json("[1, [2]]", "f") == [1, [2]]
    assert failure(formats.parse_json, "[1, [{}]]", "f").message == "too many values"


@pytest.mark.parametrize(
    ("text", "message", "path"),
    [
        ("", "the file is empty", None),
        (" \n\t", "the file is empty", None),
        ("not json", "not valid JSON: Expecting value", "line 1, column 1"),
        ('{"a": 1,\n  "b" 2}', "not valid JSON: Expecting ':' delimiter", "line 2, column 7"),
        ('{"a": 1} {}', "not valid JSON: Extra data", "line 1, column 10"),
        ("{1: 2}", "not valid JSON: Expecting property name enclosed in double quotes", "line 1, column 2"),
        ('{"a": 1, "b": 2, "a": 3}', 'the key "a" stands twice in one object', "$.a"),
        ('{"x": [0, {"b.c": {"d": 1, "d": 1}}]}', 'the key "d" stands twice in one object', '$.x[1]["b.c"].d'),
        ('{"x": {"a": 1, "a": 2}, "y": NaN}', 'the key "a" stands twice in one object', "$.x.a"),
        ('{"a": NaN}', "not a finite number", "$.a"),
        ('{"a": [1, -Infinity]}', "not a finite number", "$.a[1]"),
        ('{"a": 1e400}', "not a finite number", "$.a"),
        ('{"a": "\\ud800"}', "half of a surrogate pair, which is no text", "$.a"),
        ('{"\\udc00": 1}', "half of a surrogate pair, which is no text", "$"),
        ("[" * 101 + "]" * 101, "nested too deeply", None),
        ("[" * 200_000, "nested too deeply", None),
        ('{"a": ' + "9" * 10_000 + "}", "a whole number of thousands of digits", None),
    ],
)
def test_texts_that_are_refused(text: str, message: str, path: str | None) -> None:
    error = failure(formats.parse_json, text, "f.json")
    assert (error.message, error.path, error.file) == (message, path, "f.json")


def test_texts_at_the_edge_of_what_is_read() -> None:
    assert formats.parse_json("[" * 100 + "]" * 100, "f") is not None
    assert formats.parse_json('["\\ud83d\\ude00", 1e308, -0.0]', "f") == ["😀", 1e308, 0.0]


@pytest.mark.parametrize(
    ("document", "path", "found"),
    [
        ([], "$", "[]"),
        (None, "$", "null"),
        ({}, "$.schema", "no such key"),
        ({"schema": "x"}, "$.schema", '"x"'),
        ({"schema": "octopipe.plan", "version": 1}, "$.schema", '"octopipe.plan"'),
        ({"schema": "octopipe.profile"}, "$.version", "no such key"),
        ({"schema": "octopipe.profile", "version": "1"}, "$.version", '"1"'),
        ({"schema": "octopipe.profile", "version": True}, "$.version", "true"),
        ({"schema": "octopipe.profile", "version": 0}, "$.version", "0"),
        ({"schema": "octopipe.profile", "version": 1.0}, "$.version", "1.0"),
        ({"schema": "octopipe.profile", "version": 99}, "$.version", "99"),
    ],
)
def test_envelopes_that_are_refused(document: Any, path: str, found: str) -> None:
    error = failure(formats.check_envelope, document, "octopipe.profile", "f.json")
    assert (error.path, error.found) == (path, found)


def test_a_newer_version_says_so() -> None:
    document = {"schema": "octopipe.profile", "version": 2}
    error = failure(formats.check_envelope, document, "octopipe.profile", "f.json")
    assert "newer than this octopipe" in error.message
    assert error.remedy is not None
    assert "upgrade" in error.remedy


def test_older_versions_are_lifted_one_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    def lift(to: int) -> Any:
        return lambda document: {**document, "version": to, "seen": [*document.get("seen", []), to]}

    monkeypatch.setattr(formats, "VERSION", 3)
    monkeypatch.setattr(formats, "MIGRATIONS", {"s": {1: lift(2), 2: lift(3)}})
    assert formats.check_envelope({"schema": "s", "version": 1}, "s", "f")["seen"] == [2, 3]
    assert formats.check_envelope({"schema": "s", "version": 2}, "s", "f")["seen"] == [3]


# --- digests


def test_a_digest_is_that_of_sorted_keys_without_provenance() -> None:
    document = {"b": [1, 2.5, None, True], "provenance": {"x": 1}, "a": {"ü": "ß", "provenance": 1}}
    text = '{"a":{"provenance":1,"ü":"ß"},"b":[1,2.5,null,true]}'
    assert formats.digest(document) == "sha256:" + hashlib.sha256(text.encode()).hexdigest()


def test_a_digest_does_not_depend_on_layout_or_order_of_keys() -> None:
    document = documents.full_profile()
    shuffled = json.loads(json.dumps(dict(reversed(document.items())), indent=3))
    assert formats.digest(document) == formats.digest(shuffled)
    shuffled["layers"].reverse()
    assert formats.digest(document) != formats.digest(shuffled)


# --- layout


def test_a_document_is_laid_out_in_lines_that_fit() -> None:
    document = {
        "name": "x",
        "short": {"a": [1, 2], "b": {}},
        "layers": [{"repeat": 12, "of": ["mamba", "mlp"]}] * 7,
        "deep": {"key": {"other": ["y" * 60] * 3}},
        "none": [],
    }
    text = formats.document_text(document)
    assert json.loads(text) == document
    group = '{"repeat": 12, "of": ["mamba", "mlp"]}'
    assert text == (
        '{\n  "name": "x",\n  "short": {"a": [1, 2], "b": {}},\n  "layers": [\n'
        f"    {group}, {group},\n    {group}, {group},\n    {group}, {group},\n    {group}\n  ],\n"
        '  "deep": {\n    "key": {\n      "other": [\n'
        f'        "{"y" * 60}",\n        "{"y" * 60}",\n        "{"y" * 60}"\n'
        '      ]\n    }\n  },\n  "none": []\n}\n'
    )


def test_errors_show_values_on_one_line_and_offer_the_nearest_name() -> None:
    assert formats.show("a\nb\x1b[31m") == '"a\\nb\\u001b[31m"'
    assert len(formats.show(["x"] * 1000)) == 80
    assert formats.one_of(["a"]) == '"a"'
    assert formats.one_of(str(n) for n in range(30)).endswith('"11" ... (30 in all)')
    assert formats.did_you_mean("mamab", ["mamba", "mlp"], "no") == 'did you mean "mamba"?'
    assert formats.did_you_mean("zzz", ["mamba", "mlp"], "no") == "no"


# --- writing


def leftovers(folder: Path) -> list[str]:
    return sorted(entry.name for entry in folder.iterdir())


def test_a_file_is_written_with_the_usual_mode(tmp_path: Path) -> None:
    before = os.umask(0o027)
    try:
        formats.write_whole(str(tmp_path / "new"), "grün\n")
    finally:
        os.umask(before)
    assert (tmp_path / "new").read_bytes() == "grün\n".encode()
    assert stat.S_IMODE((tmp_path / "new").stat().st_mode) == 0o640
    assert leftovers(tmp_path) == ["new"]


def test_an_old_file_keeps_its_mode_and_links_are_followed(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    old = tmp_path / "elsewhere" / "old"
    old.write_text("old")
    old.chmod(0o604)
    link = tmp_path / "link"
    link.symlink_to(old)
    formats.write_whole(str(link), "new")
    assert link.is_symlink()
    assert old.read_text() == "new"
    assert stat.S_IMODE(old.stat().st_mode) == 0o604


def test_a_link_to_nothing_makes_the_file_it_names(tmp_path: Path) -> None:
    link = tmp_path / "link"
    link.symlink_to(tmp_path / "made")
    formats.write_whole(str(link), "new")
    assert (tmp_path / "made").read_text() == "new"
    assert link.is_symlink()


@pytest.mark.parametrize("broken", ["fsync", "replace", "chmod"])
def test_an_old_file_stays_where_writing_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, broken: str) -> None:
    file = tmp_path / "plan"
    file.write_text("old")

    def fail(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(formats.os, broken, fail)
    error = failure(formats.write_whole, str(file), "new")
    assert error.message == "cannot write the file: No space left on device"
    assert file.read_text() == "old"
    assert leftovers(tmp_path) == ["plan"]


def test_nothing_is_left_where_the_text_cannot_be_encoded(tmp_path: Path) -> None:
    with pytest.raises(InputError):
        formats.write_whole(str(tmp_path / "plan"), "\ud800")
    assert leftovers(tmp_path) == []


@pytest.mark.parametrize("call", [formats.check_writable, lambda file: formats.write_whole(file, "new")])
def test_targets_that_cannot_be_written(tmp_path: Path, call: Any) -> None:
    protected = tmp_path / "protected"
    protected.write_text("old")
    protected.chmod(0o444)
    (tmp_path / "file").write_text("")
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    reasons = {
        str(tmp_path): "Is a directory",
        str(tmp_path / "new") + "/": "there is no folder",
        str(tmp_path / "loop"): "Too many levels",
        str(tmp_path / "missing" / "plan"): "there is no folder",
        str(tmp_path / "file" / "plan"): "there is no folder",
        str(protected): "it is write-protected",
        str(tmp_path / ("n" * 300)): "File name too long",
        "": "No such file",
        "a\0b": "null",
    }
    for file, reason in reasons.items():
        error = failure(call, file)
        assert reason in error.message, file
        assert error.file == formats.shown_file(file)
    assert protected.read_text() == "old"
    assert leftovers(tmp_path) == ["file", "loop", "protected"]


def test_a_check_leaves_nothing_and_changes_nothing(tmp_path: Path) -> None:
    old = tmp_path / "old"
    old.write_text("old")
    formats.check_writable(str(old))
    formats.check_writable(str(tmp_path / "new"))
    formats.check_writable("-")
    formats.check_writable(os.devnull)
    assert old.read_text() == "old"
    assert leftovers(tmp_path) == ["old"]


def test_devices_are_written_to_and_stdout_takes_utf8(capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    formats.write_whole(os.devnull, "x")
    assert not Path(os.devnull).is_file()
    formats.write_whole("-", "grün")
    assert capfdbinary.readouterr().out == "grün".encode()
