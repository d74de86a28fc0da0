"""Files that people write by hand, in JSON, YAML or TOML: one document, the same errors, whichever it is."""

from __future__ import annotations

import functools
import os
import sys
from typing import TYPE_CHECKING, Any, Final

from octopipe_cli.errors import InputError
from octopipe_cli.formats import MAX_DEPTH, Place, check_values, parse_json, path_of, show, shown_file

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

if TYPE_CHECKING:
    import yaml

YAML: Final = (".yaml", ".yml")
TOML: Final = (".toml",)
#: How the names of files end that hold a document.
SUFFIXES: Final = (".json", *YAML, *TOML)
#: YAML is read in Python, a node at a time: what is written by hand is far smaller.
MAX_YAML_CHARACTERS: Final = 2**16


def parse(text: str, file: str) -> Any:
    """Return the value in a text, read as the file's name ends: ``.yaml``, ``.yml``, ``.toml``, else JSON.

    Raises
    ------
    InputError
        With the line and column, or the path (``$.ranks[1]``), of what is wrong.
    """
    suffix = os.path.splitext(file)[1].lower()
    if suffix in YAML:
        return parse_yaml(text, file)
    if suffix in TOML:
        table = parse_toml(text, file)
        check_values(table, file)
        return table
    return parse_json(text, file)


def parse_toml(text: str, file: str) -> dict[str, Any]:
    """Return the table of a TOML text, which may hold what JSON does not (dates); raises InputError."""
    try:
        return tomllib.loads(text)
    except ValueError as error:  # a number of thousands of digits is one, too
        raise InputError(f"the file is no TOML: {error}", file=shown_file(file)) from None
    except RecursionError:
        raise _too_deep(file) from None


def parse_yaml(text: str, file: str) -> Any:
    """Return the value of a YAML text: maps, lists and scalars; a key twice, tags, anchors and aliases are errors.

    Raises
    ------
    InputError
        With line and column, or the path of what is wrong.
    """
    if len(text) > MAX_YAML_CHARACTERS:
        raise InputError(
            "the YAML file is too large",
            file=file,
            expected="at most 64 KiB",
            remedy="write it as JSON, which has no limit",
        )
    import yaml  # only here: most files are JSON

    try:
        loader = _loader_class()(text)
        loader.file = file
        node = loader.get_single_node()
        value = None if node is None else _value(loader, node, (), file)
    except yaml.MarkedYAMLError as error:
        problem = " ".join(part for part in (error.problem, error.context) if part)
        raise InputError(f"not valid YAML: {problem}", file=file, path=_position(error.problem_mark)) from None
    except yaml.YAMLError as error:
        raise InputError(f"not valid YAML: {' '.join(str(error).split())}", file=file) from None
    except RecursionError:
        raise _too_deep(file) from None
    check_values(value, file)
    return value


@functools.cache
def _loader_class() -> Any:
    """Return a safe loader that refuses anchors, aliases and deep nesting as soon as it meets them."""
    import yaml

    class Loader(yaml.SafeLoader):
        depth = 0
        file = ""

        def compose_node(self, parent: Any, index: Any) -> Any:
            event = self.peek_event()  # type: ignore[no-untyped-call]
            if getattr(event, "anchor", None) is not None:
                raise InputError(
                    "anchors and aliases (& and *) are not read",
                    file=self.file,
                    path=_position(event.start_mark),
                    remedy="write the value out where it is needed",
                )
            if self.depth > MAX_DEPTH:
                raise _too_deep(self.file)
            self.depth += 1
            node = super().compose_node(parent, index)
            self.depth -= 1
            return node

    return Loader


def _value(loader: yaml.SafeLoader, node: yaml.Node, place: Place, file: str) -> Any:
    """Return what a node says, in the types of JSON."""
    import yaml

    if len(place) >= MAX_DEPTH:
        raise _too_deep(file)
    if isinstance(node, yaml.SequenceNode) and node.tag == "tag:yaml.org,2002:seq":
        return [_value(loader, item, (*place, index), file) for index, item in enumerate(node.value)]
    if isinstance(node, yaml.MappingNode) and node.tag == "tag:yaml.org,2002:map":
        return _mapping(loader, node, place, file)
    if isinstance(node, yaml.ScalarNode) and node.tag.removeprefix("tag:yaml.org,2002:") in _SCALARS:
        try:
            return loader.construct_object(node)
        except ValueError:
            raise InputError(
                "not a number that can be read", file=file, path=path_of(place), found=show(node.value)
            ) from None
    tag = node.tag.removeprefix("tag:yaml.org,2002:")
    found = show(node.value) if isinstance(node, yaml.ScalarNode) else None
    raise InputError(
        f"not a type that can stand here: {show(tag)}",
        file=file,
        path=path_of(place),
        found=found,
        expected="a number, text, true or false, null, a list or a map",
        remedy="put text into quotes" if found else "leave the tag out",
    )


#: The scalars of JSON, as YAML tags them.
_SCALARS: Final = ("null", "bool", "int", "float", "str")


def _mapping(loader: yaml.SafeLoader, node: yaml.MappingNode, place: Place, file: str) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key_node, value_node in node.value:
        key = key_node.value
        if not isinstance(key, str):
            raise InputError(
                "a key that is no text", file=file, path=path_of(place), found=_position(key_node.start_mark)
            )
        if key in found:
            raise InputError(
                f"the key {show(key)} stands twice in one object",
                file=file,
                path=path_of((*place, key)),
                found=_position(key_node.start_mark),
                remedy="delete one of the two",
            )
        found[key] = _value(loader, value_node, (*place, key), file)
    return found


def _position(mark: Any) -> str | None:
    return None if mark is None else f"line {mark.line + 1}, column {mark.column + 1}"


def _too_deep(file: str) -> InputError:
    return InputError("nested too deeply", file=shown_file(file), expected=f"at most {MAX_DEPTH} levels")
