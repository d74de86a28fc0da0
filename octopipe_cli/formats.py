"""Versioned JSON documents: read with exact errors, migrate, digest, write whole or not at all."""

from __future__ import annotations

import contextlib
import errno
import hashlib
import json
import math
import os
import re
import stat
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Generic, TypeVar

import msgspec

from octopipe_cli.errors import InputError

VERSION: Final = 1
#: Of these two limits each keeps reading within about half a GiB of memory; real files are far below.
MAX_FILE_BYTES: Final = 64 * 2**20
MAX_VALUES: Final = 2 * 10**6
MAX_DEPTH: Final = 100
TEXT_WIDTH: Final = 110

T = TypeVar("T")
Document = dict[str, Any]


@dataclass(frozen=True)
class Loaded(Generic[T]):  # no NamedTuple: Python 3.10 has no generic ones
    """A record, the file it came from (as errors name it) and the digest of its document."""

    value: T
    file: str
    digest: str


class Record(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """Base of everything read from a file: frozen, and unknown keys are errors."""


#: Steps that lift a document of version v (the key) to v + 1, by schema name.
MIGRATIONS: Final[Mapping[str, Mapping[int, Callable[[Document], Document]]]] = {}


def canonical_bytes(document: Document) -> bytes:
    """Return the bytes a digest is taken of: sorted keys, no spaces, ``provenance`` left out."""
    body = {key: value for key, value in document.items() if key != "provenance"}
    return json.dumps(body, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()


def digest(document: Document) -> str:
    """Return ``sha256:`` and the hexadecimal SHA-256 of the document's canonical bytes."""
    return "sha256:" + hashlib.sha256(canonical_bytes(document)).hexdigest()


def document_text(document: Document) -> str:
    """Return a document as the text of a file: what fits a line stands on one, lists are filled line by line."""
    return _laid_out(document, 0, 0) + "\n"


def _laid_out(value: Any, indent: int, used: int) -> str:
    """Return a value as JSON; `used` columns of its first line are taken."""
    line = json.dumps(value, ensure_ascii=False)
    if (indent and used + len(line) <= TEXT_WIDTH) or not isinstance(value, (dict, list)) or not value:
        return line
    inner = " " * (indent + 2)
    if isinstance(value, list):
        items = [_laid_out(item, indent + 2, indent + 2) for item in value]
        body = inner + items[0]
        for item in items[1:]:
            filled = len(body) - body.rfind("\n") + len(item) + 2 <= TEXT_WIDTH
            body += f", {item}" if filled else f",\n{inner}{item}"
        return f"[\n{body}\n{' ' * indent}]"
    keys = [json.dumps(key, ensure_ascii=False) + ": " for key in value]
    items = [
        key + _laid_out(item, indent + 2, indent + 2 + len(key)) for key, item in zip(keys, value.values(), strict=True)
    ]
    return "{\n" + ",\n".join(inner + item for item in items) + f"\n{' ' * indent}}}"


def show(value: object) -> str:
    """Return a value as JSON for an error text, cut to one line a reader can take in."""
    try:
        text = json.dumps(value, ensure_ascii=True)
    except (TypeError, ValueError, RecursionError):
        text = repr(value)
    return text if len(text) <= 80 else text[:77] + "..."


def one_of(names: Iterable[str]) -> str:
    """Return what may stand somewhere, for an error text: all names where they are few."""
    shown = [show(name) for name in names]
    more = f" ... ({len(shown)} in all)" if len(shown) > 12 else ""
    return f"one of {', '.join(shown[:12])}{more}" if len(shown) != 1 else shown[0]


def did_you_mean(name: str, names: Iterable[str], otherwise: str) -> str:
    """Return the remedy for a name that does not exist: the nearest that does, else another advice."""
    import difflib  # only where something is wrong already

    near = difflib.get_close_matches(name, list(names), 1)
    return f"did you mean {show(near[0])}?" if near else otherwise


def shown_file(file: str) -> str:
    """Return a file's name as errors print it: standard input in words, an empty name visible."""
    return {"-": "standard input", "": '"" (an empty name)'}.get(file, file)


def read_text(file: str) -> str:
    """Return the text of a file (``-``: standard input).

    Raises
    ------
    InputError
        Where it cannot be read, is larger than 64 MiB or is not UTF-8.
    """
    return decode_text(_read_stdin() if file == "-" else read_bytes(file, MAX_FILE_BYTES), shown_file(file))


def decode_text(data: bytes, file: str) -> str:
    """Return the text of a file's bytes; raises InputError where they are too many or not UTF-8."""
    if len(data) > MAX_FILE_BYTES:
        raise _too_large(file, MAX_FILE_BYTES)
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InputError(
            "the file is not UTF-8 text",
            file=file,
            found=f"byte 0x{data[error.start]:02x} at offset {error.start}",
            remedy="save it as UTF-8",
        ) from None


def _read_stdin() -> bytes:
    if sys.stdin is None:
        raise InputError("standard input is closed", remedy="give a file, or pipe one in")
    return sys.stdin.buffer.read(MAX_FILE_BYTES + 1)


def read_bytes(file: str, most: int, remedy: str | None = None) -> bytes:
    """Return the bytes of a file; raises InputError where it cannot be read, or has more than so many."""
    try:
        with open(file, "rb") as stream:  # not through Path: "" would be the folder one is in
            if os.fstat(stream.fileno()).st_size > most:
                raise _too_large(shown_file(file), most, remedy)
            data = stream.read(most + 1)  # pipes and devices say no size
    except FileNotFoundError:
        raise InputError(
            "no such file", file=shown_file(file), remedy="check the path and the folder you are in"
        ) from None
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise InputError(f"cannot read the file: {reason}", file=shown_file(file)) from None
    if len(data) > most:
        raise _too_large(shown_file(file), most, remedy)
    return data


def _too_large(file: str, most: int, remedy: str | None = None) -> InputError:
    return InputError("the file is too large", file=file, expected=f"at most {most >> 20} MiB", remedy=remedy)


class _Object(dict[str, Any]):
    """A JSON object that remembers the keys it met twice."""

    doubled: tuple[str, ...] = ()


def _object(pairs: list[tuple[str, Any]]) -> _Object:
    found = _Object(pairs)
    if len(found) != len(pairs):
        seen: set[str] = set()
        found.doubled = tuple(key for key, _ in pairs if key in seen or seen.add(key))  # type: ignore[func-returns-value]
    return found


def child_path(path: str, key: str | int) -> str:
    """Return the JSON path of an object's key or a list's index below a path."""
    if isinstance(key, int):
        return f"{path}[{key}]"
    return f"{path}.{key}" if re.fullmatch(r"[\w+-]+", key) else f"{path}[{json.dumps(key)}]"


Place = tuple["str | int", ...]
_LONE_SURROGATE: Final = re.compile("[\ud800-\udfff]")


def path_of(place: Iterable[str | int]) -> str:
    """Return the JSON path of a place: ``$.layers[3].kind``."""
    path = "$"
    for step in place:
        path = child_path(path, step)
    return path


def _walk(value: object) -> Iterator[tuple[Place, object]]:
    """Yield every value of a document with its place, in the order of the text."""
    stack: list[tuple[Place, object]] = [((), value)]
    while stack:
        place, item = stack.pop()
        yield place, item
        if isinstance(item, dict):
            stack.extend(((*place, key), child) for key, child in reversed(item.items()))
        elif isinstance(item, list):
            stack.extend(((*place, index), item[index]) for index in reversed(range(len(item))))


def parse_json(text: str, file: str, infinities: bool = False) -> Any:
    """Return the JSON value in a text; duplicate keys, NaN, lone surrogates and, unless allowed, infinities are errors.

    Raises
    ------
    InputError
        With the line and column, or the JSON path, of what is wrong.
    """
    file = shown_file(file)
    if not text.strip():
        raise InputError("the file is empty", file=file, expected="a JSON object")
    too_deep = InputError("nested too deeply", file=file, expected=f"at most {MAX_DEPTH} levels")
    if len(text) > MAX_VALUES and sum(map(text.count, ",[{")) > MAX_VALUES:  # each is far larger in memory than here
        raise InputError("too many values", file=file, expected=f"at most {MAX_VALUES}")
    try:
        value = json.loads(text, object_pairs_hook=_object)
    except json.JSONDecodeError as error:
        raise InputError(
            f"not valid JSON: {error.msg}", file=file, path=f"line {error.lineno}, column {error.colno}"
        ) from None
    except RecursionError:
        raise too_deep from None
    except ValueError:  # an integer of more digits than Python converts
        raise InputError("a whole number of thousands of digits", file=file, expected="numbers in range") from None
    check_values(value, file, infinities)
    return value


def check_values(value: object, file: str, infinities: bool = False) -> None:
    """Raise InputError, with its place, where a document holds what no JSON text can, or is nested too deeply."""
    for place, item in _walk(value):
        if len(place) >= MAX_DEPTH and isinstance(item, (dict, list)):
            raise InputError("nested too deeply", file=file, expected=f"at most {MAX_DEPTH} levels")
        _check_value(place, item, file, infinities)


def _check_value(place: Place, item: object, file: str, infinities: bool = False) -> None:
    if isinstance(item, _Object) and item.doubled:
        raise InputError(
            f"the key {show(item.doubled[0])} stands twice in one object",
            file=file,
            path=path_of((*place, item.doubled[0])),
            remedy="delete one of the two",
        )
    if isinstance(item, float) and not math.isfinite(item) and (math.isnan(item) or not infinities):
        found = show(item)
        raise InputError("not a finite number", file=file, path=path_of(place), found=found, expected="a finite number")
    if not isinstance(item, (dict, list, str, int, float, type(None))):  # TOML has dates and times
        raise InputError("a date or a time, which can't stand here", file=file, path=path_of(place), found=str(item))
    strings = item if isinstance(item, dict) else [item] if isinstance(item, str) else ()
    if any(_LONE_SURROGATE.search(string) for string in strings):
        raise InputError("half of a surrogate pair, which is no text", file=file, path=path_of(place), found=show(item))


def check_envelope(document: Any, schema: str, file: str) -> Document:
    """Return the document, lifted to this version; its ``schema`` and ``version`` must be ours.

    Raises
    ------
    InputError
        Where it is no object, of another schema, or of a version this octopipe does not read.
    """
    file = shown_file(file)
    if not isinstance(document, dict):
        raise InputError("not an object", file=file, path="$", found=show(document), expected=f"an {schema} object")
    if document.get("schema") != schema:
        raise InputError(
            "not the kind of file that is needed here",
            file=file,
            path="$.schema",
            found=show(document["schema"]) if "schema" in document else "no such key",
            expected=show(schema),
            remedy=f"see `octopipe schema {schema.removeprefix('octopipe.')}`",
        )
    version = document.get("version")
    if not isinstance(version, int) or isinstance(version, bool) or version < 1:
        found = show(version) if "version" in document else "no such key"
        raise InputError("not a version", file=file, path="$.version", found=found, expected=f"1 to {VERSION}")
    if version > VERSION:
        raise InputError(
            f"version {version} of {schema} is newer than this octopipe",
            file=file,
            path="$.version",
            found=str(version),
            expected=f"at most {VERSION}",
            remedy="install a newer octopipe: pip install --upgrade octopipe",
        )
    steps = MIGRATIONS.get(schema, {})
    lifted: Document = document
    for old in range(version, VERSION):
        lifted = steps[old](lifted)
    return lifted


def read_document(file: str, schema: str) -> Document:
    """Return the document of a file, checked for JSON, schema and version."""
    return check_envelope(parse_json(read_text(file), file), schema, file)


def check_writable(file: str) -> None:
    """Return where a file could be written now (``-``: standard output): to be asked before long work.

    Raises
    ------
    InputError
        Where its folder is missing or cannot be written to, or where the file is a folder or write-protected.
    """
    if file == "-":
        return
    try:
        target = _target(file)
        if target.is_file() or not target.exists():
            os.unlink(_temporary(target, ""))
    except (OSError, ValueError) as error:
        raise _cannot_write(file, error) from None


def write_whole(file: str, text: str) -> None:
    """Write a text file whole or not at all (``-``: standard output); an old file stays until the new one is complete.

    Raises
    ------
    InputError
        Where it cannot be written.
    """
    if file == "-":
        sys.stdout.flush()
        sys.stdout.buffer.write(text.encode())  # files are UTF-8 whatever the terminal is
        sys.stdout.buffer.flush()
        return
    temporary = None
    try:
        target = _target(file)
        if target.exists() and not target.is_file():  # a device or a pipe: nothing to replace
            target.write_text(text, encoding="utf-8")
            return
        mode = target.stat().st_mode & 0o777 if target.exists() else 0o666 & ~_umask()
        temporary = _temporary(target, text)
        os.chmod(temporary, mode)
        os.replace(temporary, target)
        temporary = None
    except (OSError, ValueError) as error:
        raise _cannot_write(file, error) from None
    finally:
        if temporary is not None:
            with contextlib.suppress(OSError):
                os.unlink(temporary)


def _target(file: str) -> Path:
    """Return the file that is really written, links followed; a folder or a write-protected file is an error."""
    if not file:
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT))
    target = Path(os.path.realpath(file))
    try:
        mode = target.stat().st_mode
    except FileNotFoundError:
        mode = 0
    if stat.S_ISDIR(mode) or file.endswith(os.sep):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
    if mode and not (mode & 0o222 and os.access(target, os.W_OK)):
        raise PermissionError(errno.EACCES, "it is write-protected")
    return target


def _temporary(target: Path, text: str) -> str:
    """Write a new file beside the target and return its name; nothing is left where that fails."""
    stream = tempfile.NamedTemporaryFile(  # noqa: SIM115 (it outlives this function)
        "w", encoding="utf-8", newline="\n", dir=target.parent, prefix=".octopipe-", delete=False
    )
    try:
        with stream:
            stream.write(text)
            stream.flush()
            os.fsync(stream.fileno())
    except BaseException:
        os.unlink(stream.name)
        raise
    return stream.name


def _cannot_write(file: str, error: Exception) -> InputError:
    reason = getattr(error, "strerror", None) or str(error)
    folder = os.path.dirname(file) or "."
    remedy = "name another file with -o"
    if file and not os.path.isdir(folder):
        reason, remedy = f"there is no folder {show(folder)}", "make the folder, or name another file with -o"
    return InputError(f"cannot write the file: {reason}", file=shown_file(file), remedy=remedy)


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
