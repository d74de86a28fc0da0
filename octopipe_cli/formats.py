"""Versioned JSON documents: read with exact errors, migrate, digest, write whole or not at all."""

from __future__ import annotations

import contextlib
import hashlib
import json
import math
import os
import re
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final, Generic, NamedTuple, TypeVar

import msgspec

from octopipe_cli.errors import InputError

VERSION: Final = 1
MAX_FILE_BYTES: Final = 256 * 2**20

T = TypeVar("T")
Document = dict[str, Any]


class Loaded(NamedTuple, Generic[T]):
    """A record, the file it came from (as the user named it) and the digest of its document."""

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


def show(value: object) -> str:
    """Return a value as JSON for an error text, cut to one line a reader can take in."""
    try:
        text = json.dumps(value, ensure_ascii=True)
    except (TypeError, ValueError, RecursionError):
        text = repr(value)
    return text if len(text) <= 80 else text[:77] + "..."


def read_text(file: str) -> str:
    """Return the text of a file (``-``: standard input).

    Raises
    ------
    InputError
        Where it cannot be read, is larger than 256 MiB or is not UTF-8.
    """
    if file == "-":
        data = sys.stdin.buffer.read(MAX_FILE_BYTES + 1)
    else:
        try:
            with Path(file).open("rb") as stream:
                data = stream.read(MAX_FILE_BYTES + 1)
        except FileNotFoundError:
            raise InputError("no such file", file=file, remedy="check the path and the folder you are in") from None
        except (OSError, ValueError) as error:
            reason = getattr(error, "strerror", None) or str(error)
            raise InputError(f"cannot read the file: {reason}", file=file) from None
    if len(data) > MAX_FILE_BYTES:
        raise InputError("the file is too large", file=file, expected="at most 256 MiB")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InputError(
            "the file is not UTF-8 text", file=file, found=f"byte 0x{data[error.start]:02x} at offset {error.start}"
        ) from None


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


def _walk(value: object, path: str = "$") -> Iterator[tuple[str, object]]:
    stack: list[tuple[str, object]] = [(path, value)]
    while stack:
        place, item = stack.pop()
        yield place, item
        if isinstance(item, dict):
            stack.extend((child_path(place, key), child) for key, child in reversed(item.items()))
        elif isinstance(item, list):
            stack.extend((child_path(place, index), item[index]) for index in reversed(range(len(item))))


def parse_json(text: str, file: str) -> Any:
    """Return the JSON value in a text; duplicate keys, NaN, infinities and lone surrogates are errors.

    Raises
    ------
    InputError
        With the line and column, or the JSON path, of what is wrong.
    """
    try:
        value = json.loads(text, object_pairs_hook=_object)
    except json.JSONDecodeError as error:
        raise InputError(
            f"not valid JSON: {error.msg}", file=file, path=f"line {error.lineno}, column {error.colno}"
        ) from None
    except RecursionError:
        raise InputError("not usable: nested too deeply", file=file) from None
    except ValueError as error:  # an integer of more digits than Python converts
        raise InputError(f"not usable: {error}", file=file) from None
    for path, item in _walk(value):
        if isinstance(item, _Object) and item.doubled:
            raise InputError(
                f"the key {show(item.doubled[0])} stands twice in one object",
                file=file,
                path=child_path(path, item.doubled[0]),
                remedy="delete one of the two",
            )
        if isinstance(item, float) and not math.isfinite(item):
            raise InputError("not a finite number", file=file, path=path, found=str(item), expected="a finite number")
        strings = [item] if isinstance(item, str) else list(item) if isinstance(item, dict) else []
        if any("\ud800" <= character <= "\udfff" for string in strings for character in string):
            raise InputError("half of a surrogate pair, which is no text", file=file, path=path, found=show(item))
    return value


def check_envelope(document: Any, schema: str, file: str) -> Document:
    """Return the document, lifted to this version; its ``schema`` and ``version`` must be ours.

    Raises
    ------
    InputError
        Where it is no object, of another schema, or of a version this octopipe does not read.
    """
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
        raise InputError("no version", file=file, path="$.version", found=found, expected=f"1 to {VERSION}")
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


def write_whole(file: str, text: str) -> None:
    """Write a text file whole or not at all (``-``: standard output); an old file stays until the new one is complete.

    Raises
    ------
    InputError
        Where it cannot be written.
    """
    if file == "-":
        sys.stdout.write(text)
        sys.stdout.flush()
        return
    target = Path(os.path.realpath(file))
    temporary = None
    try:
        if target.is_dir():
            raise InputError("cannot write the file: it is a folder", file=file)
        if target.exists() and not target.is_file():  # a device or a pipe: nothing to replace
            target.write_text(text, encoding="utf-8")
            return
        mode = target.stat().st_mode & 0o777 if target.exists() else 0o666 & ~_umask()
        with tempfile.NamedTemporaryFile(
            "w", encoding="utf-8", newline="\n", dir=target.parent, prefix=f".{target.name}.", delete=False
        ) as stream:
            temporary = stream.name
            stream.write(text)
            stream.flush()
            os.fsync(stream.fileno())
        os.chmod(temporary, mode)
        os.replace(temporary, target)
        temporary = None
    except OSError as error:
        raise InputError(
            f"cannot write the file: {error.strerror or error}", file=file, remedy="check that the folder exists"
        ) from None
    finally:
        if temporary is not None:
            with contextlib.suppress(OSError):
                os.unlink(temporary)


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
