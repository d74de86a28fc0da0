"""The ranks of a run: processes of this machine, or those that torchrun has started; a run that hangs is stopped."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from multiprocessing import connection
from typing import Any

from octopipe_cli.errors import EXIT_NO, InputError
from octopipe_cli.run.environment import under_torchrun
from octopipe_cli.run.job import Job, Outcome
from octopipe_cli.run.rank import run_rank
from octopipe_cli.run.watch import LOOK_S, RunError, Watch, ended, hang, places


def execute(job: Job) -> Outcome | None:
    """Return what a run gave; None on the ranks of torchrun but the first.

    Raises
    ------
    InputError
        Where torchrun has started another number of ranks than the plan has.
    RunError
        Where a rank fails, or none gets on: it names the actions that the ranks are in.
    """
    place = under_torchrun()
    if place is None:
        return _spawned(job)
    rank, count = place
    if count != len(job.plan.ranks):
        raise InputError(
            "torchrun has started another number of ranks than the plan has",
            found=str(count),
            expected=f"{len(job.plan.ranks)}: --nproc-per-node x --nnodes",
        )
    watch = Watch(job, rank)
    watch.start()
    with _silent_stdout():
        return run_rank(job, rank, "env://", watch.progress)


@contextlib.contextmanager
def _silent_stdout() -> Iterator[None]:
    """Within it all that libraries print on stdout goes to stderr: stdout is the report's."""
    sys.stdout.flush()
    kept = os.dup(1)
    os.dup2(2, 1)
    try:
        yield
    finally:
        os.dup2(kept, 1)
        os.close(kept)


def _spawned(job: Job) -> Outcome:
    """Run every rank in a process of its own, forked from this one: what is imported here need not be again."""
    import torch.distributed.pipelining  # noqa: F401 (before the fork)

    if "fork" not in multiprocessing.get_all_start_methods():
        raise InputError("this system cannot fork processes", remedy="start the ranks with torchrun")
    context = multiprocessing.get_context("fork")
    count = len(job.plan.ranks)
    board = context.RawArray("q", [-1, 0] * count)  # step and ended actions of each rank
    with tempfile.TemporaryDirectory(prefix="octopipe-run-") as folder:
        pipes, children = [], []
        for rank in range(count):
            ours, theirs = context.Pipe(duplex=False)
            child = context.Process(target=_child, args=(job, rank, folder, board, theirs, os.getpid()), daemon=True)
            child.start()
            theirs.close()
            pipes.append(ours)
            children.append(child)
        try:
            return _watched(job, pipes, board)
        finally:
            for child in children:
                child.kill()
            for child in children:
                child.join()


def _child(job: Job, rank: int, folder: str, board: Any, pipe: connection.Connection, parent: int) -> None:
    """Run one rank and send what came of it; torch's own words go nowhere."""
    threading.Thread(target=_end_with, args=(parent,), daemon=True).start()
    try:
        sink = os.open(os.devnull, os.O_WRONLY)
        for stream in (1, 2):
            os.dup2(sink, stream)
        os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")

        def progress(step: int, done: int) -> None:
            board[2 * rank], board[2 * rank + 1] = step, done

        import torch

        torch.set_num_threads(1)  # ranks share the machine, and so do the results: sums in one order
        pipe.send(("done", run_rank(job, rank, f"file://{folder}/meeting", progress)))
    except BaseException as error:
        pipe.send(("failed", _words(error)))
    finally:
        pipe.close()
        os._exit(0)  # nothing of the parent's is to be tidied up here


def _end_with(parent: int) -> None:
    """End this process soon after its parent, however that ended."""
    while os.getppid() == parent:
        time.sleep(1)
    os._exit(EXIT_NO)


def _words(error: BaseException) -> str:
    """Return an error's innermost cause on one line."""
    while error.__cause__ is not None:
        error = error.__cause__
    text = " ".join(str(error).split()) or "no reason given"
    return f"{type(error).__name__}: {text[:500]}"


def _watched(job: Job, pipes: Sequence[connection.Connection], board: Any) -> Outcome:
    """Wait for all ranks; raises RunError where one fails or none gets on."""
    waiting = dict(enumerate(pipes))
    outcome: Outcome | None = None
    seen, last = list(board), time.monotonic()
    while waiting:
        ready = connection.wait(list(waiting.values()), timeout=LOOK_S)
        for rank, pipe in list(waiting.items()):
            if pipe not in ready:
                continue
            del waiting[rank]
            with contextlib.suppress(EOFError):
                what, found = pipe.recv()
                if what == "failed":
                    raise RunError(f"rank {rank} failed: {found}", found=places(job, board))
                outcome = found if rank == 0 else outcome
                continue
            raise RunError(f"rank {rank} ended without a word", found=places(job, board))
        now = list(board)
        if now != seen:
            seen, last = now, time.monotonic()
        elif time.monotonic() - last > job.timeout_s and not all(
            ended(job, rank, board[2 * rank], board[2 * rank + 1]) for rank in waiting
        ):
            raise hang(job, board)
    assert outcome is not None
    return outcome
