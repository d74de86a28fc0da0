"""Files that are no plain files, disks that are full, processes that are killed: a clear error or correct work."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from tests import documents
from tests.cli.conftest import Octopipe
from tests.cli.test_bad_input import one_screen
from tests.profiling.test_megatron_timers import ITERATION, block

COMPARE = ("compare", "profile.json", "cluster.json", "-m", "2", "--format", "json")
ESTIMATE = ("--hardware", "h100-sxm", "--sequence-length", "1024", "--micro-batch-size", "1")
OF_PLAN = ("--plan", "plan.json", "--profile", "profile.json")

#: Each reader with a command that reads this file.
READERS = {
    "profile": ("profile", "show", "hard"),
    "cluster": ("compare", "profile.json", "hard", "-m", "2"),
    "plan": ("show", "hard"),
    "old plan": ("diff", "hard", "plan.json"),
    "config": ("profile", "estimate", "hard", *ESTIMATE),
    "trace": ("profile", "import", "trace", "hard", *OF_PLAN),
    "log": ("profile", "import", "megatron", "hard", *OF_PLAN),
    "simpipe": ("profile", "import", "simpipe", "hard", "--hardware", "a100"),
    "measured": ("profile", "calibrate", "profile.json", "--measured", "hard"),
}


@pytest.mark.parametrize("name", READERS)
def test_what_is_no_file_to_read(folder: Path, octopipe: Octopipe, name: str) -> None:
    hard = folder / "hard"
    hard.mkdir()
    one_screen(octopipe(*READERS[name]), 2, "hard", "no such file" if name == "config" else "directory")
    hard.rmdir()
    hard.symlink_to(hard)
    one_screen(octopipe(*READERS[name]), 2, "hard")
    hard.unlink()
    hard.symlink_to(folder / "nowhere")
    one_screen(octopipe(*READERS[name]), 2, "hard")
    hard.unlink()
    hard.touch()
    os.truncate(hard, 600 * 2**20)  # a sparse file: zeros
    one_screen(octopipe(*READERS[name]), 2, "hard", "the file is too large")


def test_files_of_other_systems_and_links_are_read(folder: Path, octopipe: Octopipe) -> None:
    plain = octopipe(*COMPARE)
    assert plain.code == 0
    for file in ("profile.json", "cluster.json"):
        text = (folder / file).read_bytes()
        (folder / f"other-{file}").write_bytes(b"\xef\xbb\xbf" + text.replace(b"\n", b"\r\n"))
        (folder / file).unlink()
        (folder / file).symlink_to(f"other-{file}")
    assert octopipe(*COMPARE) == plain
    log = (ITERATION + block([40, 80], [100, 160])).encode()
    (folder / "log").write_bytes(log)
    (folder / "other-log").write_bytes(b"\xef\xbb\xbf" + log.replace(b"\n", b"\r\n"))
    plain, other = (octopipe("profile", "import", "megatron", file, *OF_PLAN) for file in ("log", "other-log"))
    assert plain.code == other.code == 0
    assert json.loads(plain.out)["kinds"] == json.loads(other.out)["kinds"]


def test_a_named_pipe_is_read_and_written(folder: Path, octopipe: Octopipe) -> None:
    plain = octopipe("show", "plan.json", "--format", "json")
    os.mkfifo(folder / "pipe")
    for arguments in (("show", "pipe", "--format", "json"), ("show", "/dev/fd/0", "--format", "json")):
        if "pipe" in arguments:
            writer = threading.Thread(target=(folder / "pipe").write_bytes, args=[documents.PLAN.read_bytes()])
            writer.start()
            assert octopipe(*arguments) == plain
            writer.join()
        else:
            command = [sys.executable, "-m", "octopipe_cli", *arguments]
            done = subprocess.run(command, input=documents.PLAN.read_text(), capture_output=True, text=True, check=True)
            assert done.stdout == plain.out
    held: list[str] = []
    reader = threading.Thread(target=lambda: held.append((folder / "pipe").read_text()))
    reader.start()
    assert octopipe("export", "plan.json", "--to", "deepspeed", "-o", "pipe").code == 0
    reader.join()
    assert held == [octopipe("export", "plan.json", "--to", "deepspeed").out]
    assert (folder / "pipe").is_fifo()


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full here")
def test_a_full_disk_keeps_the_old_file(folder: Path, octopipe: Octopipe) -> None:
    (folder / "full").symlink_to("/dev/full")
    one_screen(octopipe("export", "plan.json", "--to", "deepspeed", "-o", "full"), 2, "full", "No space left")
    assert (folder / "full").is_symlink()


def test_a_folder_that_cannot_be_written_to(folder: Path, octopipe: Octopipe) -> None:
    # /proc cannot, whoever asks: rights mean nothing to root
    one_screen(octopipe("export", "plan.json", "--to", "deepspeed", "-o", "/proc/stages.py"), 2, "/proc/stages.py")


KILLED = """
import os, signal, sys
from octopipe_cli import cli, formats
def die(*_): os.kill(os.getpid(), signal.SIGKILL)
setattr(formats.os, sys.argv[1], die)
cli.run(["export", "plan.json", "--to", "deepspeed", "-o", "stages.py"])
"""


@pytest.mark.parametrize("at", ["fsync", "chmod", "replace"])
def test_a_killed_process_leaves_the_old_file(folder: Path, at: str) -> None:
    (folder / "stages.py").write_text("old")
    done = subprocess.run([sys.executable, "-c", KILLED, at], capture_output=True, check=False)
    assert done.returncode == -9
    assert (folder / "stages.py").read_text() == "old"
