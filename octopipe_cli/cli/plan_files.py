"""The plans that ``octopipe diff`` compares: two files, of which any may be a git revision's, or those of folders."""

from __future__ import annotations

import os
from typing import NamedTuple

from octopipe_cli import named
from octopipe_cli.cli import git
from octopipe_cli.cluster import SCHEMA as CLUSTER
from octopipe_cli.cluster import Cluster, cluster_from_document
from octopipe_cli.errors import InputError
from octopipe_cli.formats import Document, Loaded, check_envelope, digest, parse_json, read_text, shown_file
from octopipe_cli.markup import parse
from octopipe_cli.plan import SCHEMA as PLAN
from octopipe_cli.plan import Plan, plan_from_document
from octopipe_cli.profile import SCHEMA as PROFILE
from octopipe_cli.profile import Profile, profile_from_document


class Pair(NamedTuple):
    """Two plans to compare; None where there is none."""

    old: Loaded[Plan] | None
    new: Loaded[Plan] | None


def read_plan(name: str) -> Loaded[Plan]:
    """Return the plan of a file or of a file of a git revision (``main:plans/a.json``); raises InputError."""
    document, file = _document(name, PLAN)
    return plan_from_document(document, file)


def read_profile(name: str) -> Loaded[Profile]:
    """Return the profile of a file, of a file of a git revision, or of a shipped name; raises InputError."""
    if git.revision_of(name) is None:
        return named.read_profile(name)
    document, file = _document(name, PROFILE)
    return Loaded(profile_from_document(document, file), file, digest(document))


def read_cluster(name: str) -> Loaded[Cluster]:
    """Return the cluster of a file, of a file of a git revision, of a name or of a line; raises InputError."""
    if git.revision_of(name) is None or named.names_cluster(name):
        return named.read_cluster(name)
    document, file = _document(name, CLUSTER)
    return Loaded(cluster_from_document(document, file), file, digest(document))


def _document(name: str, schema: str) -> tuple[Document, str]:
    revision = git.revision_of(name)
    text = read_text(name) if revision is None else git.read_revision(revision)
    file = shown_file(name)
    return check_envelope(parse(text, file), schema, file), file


def changed_plans(base: str, paths: list[str]) -> list[Pair]:
    """Return the plans at or below paths that are not the same files in a revision and here, by name.

    Plans that are new or gone are pairs with a None. In folders, JSON files of another schema or of none are passed
    over; a file named on its own must be a plan.

    Raises
    ------
    InputError
        Where there is no such revision, a path is neither in it nor here, or a plan cannot be read.
    """
    git.check_revision(base)
    paths = [os.path.relpath(path or ".") for path in paths]
    before, here = git.files_at(base, paths), git.files_here(paths)
    for path in paths:
        if path != "." and not any(f"{name}{os.sep}".startswith(path + os.sep) for name in (*before, *here)):
            raise InputError(
                f"no such file or folder, neither in {base} nor here", file=path, remedy="check the path and the folder"
            )
    pairs = []
    for name in sorted({*before, *here}):
        if name.endswith(".json") or name in paths:
            pair = _pair(base, name, before.get(name), name in here, name in paths)
            if pair is not None:
                pairs.append(pair)
    return pairs


def _pair(base: str, name: str, blob: str | None, is_here: bool, named: bool) -> Pair | None:
    """Return the plan of a name in the revision and here; None where it is the same file, or no plan in either."""
    text = read_text(name) if is_here else None
    if text is not None and blob is not None and git.blob_id(text.encode(), blob) == blob:
        return None
    old = None
    if blob is not None:
        old_name = f"{base}:{git.root_path(name)}"
        old = _plan(git.read_blob(blob, old_name), old_name, named)
    new = None if text is None else _plan(text, name, named)
    return None if old is None and new is None else Pair(old, new)


def _plan(text: str, file: str, named: bool) -> Loaded[Plan] | None:
    """Return the plan in a text; None where it is something else, and need not be one."""
    if not named and f'"{PLAN}"' not in text:
        return None
    document = parse_json(text, file)
    if not named and (not isinstance(document, dict) or document.get("schema") != PLAN):
        return None
    return plan_from_document(check_envelope(document, PLAN, file), file)
