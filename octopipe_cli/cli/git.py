"""Files as a git revision has them: read by the git command, without a shell and without the network."""

from __future__ import annotations

import os
import re
import subprocess
from typing import Final, NamedTuple

from octopipe_cli.errors import InputError
from octopipe_cli.formats import MAX_FILE_BYTES, decode_text

#: No question at a terminal, no fetch of missing objects, and no program that the repository's settings name.
_ENVIRONMENT: Final = {"GIT_TERMINAL_PROMPT": "0", "GIT_NO_LAZY_FETCH": "1", "GIT_OPTIONAL_LOCKS": "0", "LC_ALL": "C"}
_COMMAND: Final = ("git", "-c", "core.fsmonitor=false")


class Revision(NamedTuple):
    """A file of a revision: ``main:plans/a.json``; no revision is the index (``:plans/a.json``)."""

    revision: str
    path: str

    def __str__(self) -> str:
        return f"{self.revision}:{self.path}"


def revision_of(name: str) -> Revision | None:
    """Return the revision a file's name speaks of; None for a file of that name, and for a Windows drive."""
    revision, colon, path = name.partition(":")
    if not colon or not path or os.path.lexists(name) or re.match(r"[A-Za-z]:[\\/]", name):
        return None
    return Revision(revision, path)


def read_revision(file: Revision) -> str:
    """Return the text of a file of a revision; its path starts at the root of the repository (``./``: at this folder).

    Raises
    ------
    InputError
        Where there is no repository, no such revision, or no such file in it.
    """
    check_revision(file.revision, file=str(file), exists=False)
    done = _git("cat-file", "blob", str(file))
    if done.returncode:
        check_revision(file.revision, file=str(file))
        raise InputError(
            f"no such file in {file.revision or 'the index'}",
            file=str(file),
            found=_said(done),
            remedy="a path after a revision starts at the root of the repository, or with ./ at this folder; "
            "`git ls-tree -r --name-only REVISION` lists what is there",
        )
    return decode_text(done.stdout[: MAX_FILE_BYTES + 1], str(file))


def check_revision(revision: str, *, file: str | None = None, exists: bool = True) -> None:
    """Raise InputError where a revision is none; with `exists` False only where it cannot be one."""
    if revision.startswith("-"):
        raise InputError("not a git revision", file=file, found=revision, expected="a branch, a tag or a commit")
    if not exists:
        return
    done = _git("rev-parse", "--git-dir")
    if done.returncode:
        raise InputError(
            "not in a git repository, so no file of a revision can be read",
            file=file,
            found=_said(done),
            remedy="go to the repository, or name two files",
        )
    if revision and _git("rev-parse", "--verify", "--quiet", f"{revision}^{{tree}}").returncode:
        raise InputError(
            "no such revision in this repository",
            file=file,
            found=revision,
            expected="a branch, a tag or a commit that is here",
            remedy=f"`git fetch origin {revision}` first (in CI: check out with the whole history)",
        )


def files_at(revision: str, paths: list[str]) -> dict[str, str]:
    """Return the files of a revision at or below paths, seen from this folder, with the ids of their contents."""
    done = _git("ls-tree", "-r", "-z", revision, "--", *paths)
    _check(done, paths)
    found = {}
    for line in os.fsdecode(done.stdout).split("\0"):
        head, tab, path = line.partition("\t")
        if tab and head.startswith("100"):  # mode, type, id; plain files alone: no links, no submodules
            found[os.path.normpath(path)] = head.split(" ")[2]
    return found


def files_here(paths: list[str]) -> list[str]:
    """Return the files there are at or below paths, seen from this folder, but for those that git ignores."""
    done = _git("ls-files", "-z", "--cached", "--others", "--exclude-standard", "--", *paths)
    _check(done, paths)
    names = dict.fromkeys(os.path.normpath(name) for name in os.fsdecode(done.stdout).split("\0") if name)
    return [name for name in names if os.path.isfile(name) and not os.path.islink(name)]


def blob_id(content: bytes, like: str) -> str:
    """Return the id git gives to a content, with the hash of the id it is to be compared with."""
    import hashlib

    name = "sha1" if len(like) == 40 else "sha256"
    return hashlib.new(name, b"blob %d\0" % len(content) + content, usedforsecurity=False).hexdigest()


def read_blob(blob: str, name: str) -> str:
    """Return the text of a content by its id; errors call it `name`."""
    done = _git("cat-file", "blob", blob)
    if done.returncode:
        raise InputError("git cannot read the file", file=name, found=_said(done))
    return decode_text(done.stdout[: MAX_FILE_BYTES + 1], name)


def root_path(path: str) -> str:
    """Return a path of this folder as the repository's root sees it."""
    prefix = os.fsdecode(_git("rev-parse", "--show-prefix").stdout).strip("\n")
    return os.path.normpath(os.path.join(prefix, path)).replace(os.sep, "/")


def _check(done: subprocess.CompletedProcess[bytes], paths: list[str]) -> None:
    if done.returncode:
        raise InputError("git cannot list the files", file=", ".join(paths), found=_said(done))


def _said(done: subprocess.CompletedProcess[bytes]) -> str:
    return " ".join(done.stderr.decode(errors="replace").split()) or f"git left with {done.returncode}"


def _git(*arguments: str) -> subprocess.CompletedProcess[bytes]:
    try:
        return subprocess.run(
            [*_COMMAND, *arguments],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            check=False,
            env={**os.environ, **_ENVIRONMENT},
        )
    except FileNotFoundError:
        raise InputError("the git command is not there", remedy="install git, or name two files") from None
    except (OSError, ValueError) as error:
        raise InputError(
            f"the git command cannot be run: {error}", remedy="install git, or name files in place of revisions"
        ) from None
