"""The files that `octopipe init` makes: their names, and writing them all or none."""

from __future__ import annotations

import os
from dataclasses import dataclass

from octopipe_cli.cli.output import safe_name, save
from octopipe_cli.cli.settings_file import entry_line, settings_with
from octopipe_cli.errors import InputError


@dataclass(frozen=True)
class Files:
    """The files of a model in a folder."""

    folder: str
    stem: str

    @classmethod
    def of(cls, model: str, folder: str) -> Files:
        """Return the files of a model by its name."""
        return cls(folder, safe_name(model))

    def path(self, name: str) -> str:
        """Return a file of the folder as the current one sees it."""
        return os.path.normpath(os.path.join(self.folder, name))

    @property
    def profile(self) -> str:
        """The profile."""
        return self.path(f"{self.stem}.profile.json")

    @property
    def cluster(self) -> str:
        """The cluster."""
        return self.path(f"{self.stem}.cluster.json")

    @property
    def settings(self) -> str:
        """The settings."""
        return self.path("octopipe.toml")

    def plan(self, engine: str = "") -> str:
        """Return the plan's file, that of an engine where there are several."""
        return self.path(f"{self.stem}.{engine + '.' if engine else ''}plan.json")

    @property
    def line(self) -> str:
        """The plan's line of the settings."""
        return entry_line(*map(os.path.basename, (self.plan(), self.profile, self.cluster)))


def write_files(files: Files, profile: str, cluster: str, force: bool) -> bool:
    """Write all files, or none where one is there with other contents; return whether the settings were written."""
    texts = {files.profile: profile, files.cluster: cluster}
    for file, text in texts.items():
        if os.path.lexists(file) and not force and not _says(file, text):
            raise InputError(
                "the file is there already, and says something else",
                file=file,
                remedy="give another folder with -o, or replace it with --force",
            )
    settings = settings_with(files.folder, os.path.basename(files.plan()), files.line)
    try:
        os.makedirs(files.folder, exist_ok=True)
    except OSError as error:
        raise InputError(f"cannot make the folder: {error.strerror or error}", file=files.folder) from None
    for file, text in texts.items():
        save(file, text)
    if settings is not None:
        save(files.settings, settings)
    return settings is not None


def _says(file: str, text: str) -> bool:
    try:
        with open(file, "rb") as stream:
            return stream.read() == text.encode()
    except OSError:
        return False
