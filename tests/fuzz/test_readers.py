"""Spoilt input of every kind: an error that explains or an answer, never a bug.

``OCTOPIPE_FUZZ_SECONDS=600 pytest -n 0 -m slow tests/fuzz`` goes on for that long with each reader; what it finds goes
into tests/data/found, where each file's name begins with its reader's.
"""

from __future__ import annotations

import os
import resource
import shutil
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, seed, settings

from tests import documents
from tests.fuzz.readers import READERS, tried

FOUND = Path(__file__).parents[1] / "data" / "found"
LONGEST_CPU_S = 2
MOST_MEMORY_KIB = 2**20

quiet = settings(deadline=None, database=None, suppress_health_check=list(HealthCheck))


@pytest.fixture(autouse=True)
def folder(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    path = tmp_path_factory.mktemp("fuzz")
    (path / ".git").mkdir()  # no settings are looked for above
    for file, name in ((documents.PROFILE, "profile"), (documents.CLUSTER, "cluster"), (documents.PLAN, "plan")):
        shutil.copy(file, path / f"{name}.json")
    monkeypatch.chdir(path)
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setenv("OCTOPIPE_DEBUG", "1")
    monkeypatch.delenv("GITHUB_ACTIONS", raising=False)
    yield
    shutil.rmtree(path)


@pytest.mark.parametrize("file", sorted(FOUND.iterdir()), ids=lambda file: file.name)
def test_what_was_found(file: Path) -> None:
    tried(file.name.split(".")[0], file.read_bytes())


@pytest.mark.parametrize("name", READERS)
def test_spoilt_input(name: str) -> None:
    @settings(quiet, max_examples=8, derandomize=True)
    @given(READERS[name].inputs)
    def check(data: bytes) -> None:
        tried(name, data)

    check()


class TooLongError(BaseException):
    """A command took more than its time."""


def _too_long(*_: Any) -> None:
    raise TooLongError(f"more than {LONGEST_CPU_S} s of CPU time")


@pytest.mark.slow
@pytest.mark.parametrize("name", READERS)
def test_spoilt_input_for_long(name: str) -> None:
    """Each input within 2 s of CPU time, all of them within 1 GiB."""
    end = time.monotonic() + float(os.environ.get("OCTOPIPE_FUZZ_SECONDS", "10"))
    start, tries, slowest_s = time.time_ns(), 0, 0.0
    before = signal.signal(signal.SIGVTALRM, _too_long)

    def check(data: bytes) -> None:
        nonlocal tries, slowest_s
        tries += 1
        begun = time.process_time()
        signal.setitimer(signal.ITIMER_VIRTUAL, LONGEST_CPU_S * len(READERS[name].commands))
        tried(name, data)
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        slowest_s = max(slowest_s, time.process_time() - begun)

    try:
        while time.monotonic() < end:
            start += 1
            seed(start)(settings(quiet, max_examples=200)(given(READERS[name].inputs)(check)))()
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)
    used = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    commands = len(READERS[name].commands)
    print(
        f"{name}: {tries} inputs, {used >> 10} MiB, {slowest_s:.2f} s of CPU time for {commands} commands at the most"
    )
    assert used < MOST_MEMORY_KIB
