"""The settings file of a project, octopipe.toml: a plan's entry added to it, all else left as it is."""

from __future__ import annotations

import json
import os
import re

from octopipe_cli.config import OWN_FILE, PROJECT_FILE, load_config, plan_entries, read_config
from octopipe_cli.errors import InputError
from octopipe_cli.formats import read_text


def entry_line(plan: str, profile: str, cluster: str, warm_start: str | None = None) -> str:
    """Return a plan's line of ``[plans]``; names are those of files beside the settings, or of what ships."""
    names = {"profile": profile, "cluster": cluster} | ({} if warm_start is None else {"warm_start": warm_start})
    inputs = ", ".join(f"{key} = {_quoted(name)}" for key, name in names.items())
    return f"{_quoted(plan)} = {{ {inputs} }}"


def _quoted(name: str) -> str:
    return json.dumps(name, ensure_ascii=False)


def missing_line(plan: str, profile: str, cluster: str, warm_start: str | None = None) -> tuple[str, str] | None:
    """Return the settings that name other plans but not this one, and the line that would name it.

    None where there are none around the plan's folder, or none that can be read, or where an input was a stream.
    """
    if "-" in (plan, profile, cluster, warm_start):
        return None
    try:
        config = read_config(os.path.dirname(plan) or ".")
        entries = [] if config is None else plan_entries(config)
    except InputError:  # that is for the commands that need them
        return None
    if config is None or not entries or os.path.abspath(plan) in {os.path.abspath(entry.plan) for entry in entries}:
        return None
    folder = os.path.dirname(os.path.abspath(config.file))

    def seen(name: str) -> str:
        return os.path.relpath(name, folder) if os.path.exists(name) else name

    warm = None if warm_start is None else seen(warm_start)
    return config.file, entry_line(seen(plan), seen(profile), seen(cluster), warm)


def settings_with(folder: str, plan: str, line: str) -> str | None:
    """Return the text that a folder's octopipe.toml should have for a plan's line to be in it.

    None where it is there already, or where pyproject.toml has the settings: another file would hide them.

    Raises
    ------
    InputError
        Where the file is wrong, or names the plan with other inputs.
    """
    file = os.path.join(folder, OWN_FILE)
    if not os.path.lexists(file):
        return None if in_project_file(folder) else f"[plans]\n{line}\n"
    text = read_text(file)
    if line in text.splitlines():
        return None
    named = {os.path.abspath(entry.plan) for entry in plan_entries(load_config(file))}
    if os.path.abspath(os.path.join(folder, plan)) in named:
        raise InputError(
            "the settings name this plan with other inputs",
            file=file,
            path="$.plans",
            found=plan,
            expected=line,
            remedy="change the line by hand, or give another folder with -o",
        )
    head = re.search(r"^\[plans\][^\n]*\n?", text, re.MULTILINE)
    if head is None:
        return f"{text.rstrip()}\n\n[plans]\n{line}\n".lstrip("\n")
    before = text[: head.end()]
    return f"{before}{'' if before.endswith(chr(10)) else chr(10)}{line}\n{text[head.end() :]}"


def in_project_file(folder: str) -> bool:
    """Return whether the folder's pyproject.toml has the settings, and there is no octopipe.toml."""
    file = os.path.join(folder, PROJECT_FILE)
    if os.path.exists(os.path.join(folder, OWN_FILE)) or not os.path.isfile(file):
        return False
    try:
        load_config(file)
    except InputError as error:
        if error.message != "no settings in the file":
            raise
        return False
    return True
