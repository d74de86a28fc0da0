"""The ranks of a run: processes of this machine, or those that torchrun has started; a run that hangs is stopped."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from multiprocessing import connection
from typing import Any, Final

from octopipe_cli.errors import EXIT_NO, InputError, OctopipeError
from octopipe_cli.run.job import Job, Outcome
from octopipe_cli.run.rank import run_rank

#: How often progress is looked at, in seconds.
LOOK_S: Final = 0.05
#: What torchrun tells the processes it starts.
TORCHRUN: Final = ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")


class RunError(OctopipeError):
    """A run that failed or hung (exit 1)."""

    exit_code = EXIT_NO


def check_torch(device: str, local_ranks: int) -> str:
    """Return the device to run on: cuda where asked for, or where there are GPUs enough and no other is asked for.

    Raises
    ------
    InputError
        Where torch is missing, too old to run plans, or has not the device.
    """
    os.environ.setdefault("PYTORCH_NVML_BASED_CUDA_CHECK", "1")  # looking for GPUs must not keep us from forking
    try:
        import torch
        from torch.distributed.pipelining import schedules
    except ImportError as error:
        raise InputError(
            f"running a plan needs torch: {error.name or error} is not installed",
            remedy="pip install 'octopipe[torch]'",
        ) from None
    if not hasattr(schedules, "_PipelineScheduleRuntime") or not hasattr(schedules, "REDUCE_GRAD"):
        raise InputError(
            f"torch {torch.__version__} cannot run plans: its pipelining runtime lacks REDUCE_GRAD",
            remedy="pip install 'torch>=2.10'",
        )
    count = torch.cuda.device_count()
    if device == "auto":
        return "cuda" if count >= local_ranks else "cpu"
    if device == "cuda" and count < local_ranks:
        raise InputError(
            f"{local_ranks} ranks need a GPU each", path="--device", found=f"{count} GPUs", remedy="use --device cpu"
        )
    return device


def under_torchrun(environment: Mapping[str, str] = os.environ) -> tuple[int, int] | None:
    """Return rank and number of ranks where torchrun has started this process; None elsewhere."""
    if not all(name in environment for name in TORCHRUN):
        return None
    return int(environment["RANK"]), int(environment["WORLD_SIZE"])


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
    watch = _Watch(job, rank)
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


def where(job: Job, rank: int, step: int, done: int) -> str:
    """Return, in words, what a rank is in: its first action that has not ended."""
    if step < 0:
        return f"rank {rank} is starting"
    actions = job.timeline.orders[rank]
    if done < len(actions):
        return f"rank {rank} is in {actions[done]}, action {done + 1} of {len(actions)}"
    return f"rank {rank} has ended its actions"


class _Watch(threading.Thread):
    """Ends this process where its rank does not get on; of the other ranks it knows nothing."""

    def __init__(self, job: Job, rank: int) -> None:
        super().__init__(daemon=True)
        self.job, self.rank = job, rank
        self.place = (-1, 0)
        self.last = time.monotonic()

    def progress(self, step: int, done: int) -> None:
        """Note that the rank got on."""
        self.place, self.last = (step, done), time.monotonic()

    def run(self) -> None:
        """Wait until the rank has stood still for too long."""
        while time.monotonic() - self.last < self.job.timeout_s:
            time.sleep(LOOK_S)
        sys.stderr.write(f"octopipe: error: no action ended for {self.job.timeout_s:g} s: ")
        sys.stderr.write(where(self.job, self.rank, *self.place) + "\n")
        sys.stderr.flush()
        os._exit(EXIT_NO)


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
                    raise RunError(f"rank {rank} failed: {found}", found=_places(job, board))
                outcome = found if rank == 0 else outcome
                continue
            raise RunError(f"rank {rank} ended without a word", found=_places(job, board))
        now = list(board)
        if now != seen:
            seen, last = now, time.monotonic()
        elif time.monotonic() - last > job.timeout_s and not all(_done(job, board, rank) for rank in waiting):
            raise _hang(job, board)
    assert outcome is not None
    return outcome


def _done(job: Job, board: Any, rank: int) -> bool:
    """Return whether a rank has ended the actions of the last step: a check may take any time after that."""
    step, done = board[2 * rank], board[2 * rank + 1]
    return bool(step == job.warmup + job.steps - 1 and done == len(job.timeline.orders[rank]))


def _places(job: Job, board: Any) -> str:
    return "; ".join(where(job, rank, board[2 * rank], board[2 * rank + 1]) for rank in range(len(job.plan.ranks)))


def _hang(job: Job, board: Any) -> RunError:
    return RunError(
        f"the run was stopped: no action ended for {job.timeout_s:g} s",
        found=_places(job, board),
        remedy="give it longer with --timeout, if its actions take so long",
    )
