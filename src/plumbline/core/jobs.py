"""Do portions that appear whole, one run at a time in a checkout, on a chosen number of threads.

Threads of GNU OpenMP meet thousands of times a second. Alone on the machine it is fastest
to wait for the others without going to sleep; beside another busy program that takes the
cores from the very thread that is waited for. The figures: docs/decisions/0004. Neither
setting changes a result.
"""

from __future__ import annotations

import ctypes
import hashlib
import json
import multiprocessing
import os
import shutil
import signal
import statistics
import sys
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, MutableMapping, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, ThreadPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager, suppress
from functools import cache
from itertools import chain, islice
from pathlib import Path
from threading import Lock
from typing import Any, ClassVar, Protocol, TypeVar

from threadpoolctl import ThreadpoolController

from plumbline.core.console import log, setup_logging, track
from plumbline.core.errors import InputError, NotWritable, PlumblineError
from plumbline.core.files import KEPT_SECONDS, make_full_disk_error, sha256_folder

WORK = Path(".plumbline")
"""Untracked: checkpoints and finished portions. Outside of a stage's outputs, which DVC
deletes before it runs."""
LOCK_TRIES = 10
PR_SET_PDEATHSIG = 1
ONE_THREAD = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")


class Portion(Protocol):
    """A portion of work that can be sent to another process."""

    @property
    def folder(self) -> Path:
        """Folder of the result, complete or absent."""


AnyJob = TypeVar("AnyJob", bound=Portion)


def run_jobs(
    work: Callable[[AnyJob], None], jobs: Sequence[AnyJob], workers: int | None, stage: str
) -> None:
    """Call `work` on every job that has no folder yet; the first failure ends the others.

    Args:
        work: a function of a module, which writes the job's folder atomically.
        jobs: what is to be done.
        workers: processes; None: one a core. One, or a single job left, is done in this process.
        stage: name of the stage, for the progress.

    Raises:
        PlumblineError: a process was ended from outside.
        Exception: what `work` raised.
    """
    pending = undone(jobs, stage)
    workers = min(workers or cores(), len(pending))
    if workers <= 1:
        for job in track(pending, len(pending), stage):
            work(job)
        return
    with processes(workers) as pool:
        futures = [pool.submit(work, job) for job in pending]
        for future in track(as_completed(futures), len(futures), stage, finished=True):
            future.result()


@contextmanager
def processes(count: int) -> Iterator[ProcessPoolExecutor]:
    """Start processes for the block, each on one core; they end with the block or with this
    process.

    Raises:
        PlumblineError: one was ended from outside.
    """
    start = (log.level <= 10, os.getpid())
    try:
        with (
            _one_thread(),
            ProcessPoolExecutor(count, multiprocessing.get_context("spawn"), _start, start) as pool,
        ):
            try:
                yield pool
            except BaseException:
                pool.shutdown(wait=True, cancel_futures=True)
                raise
    except BrokenProcessPool:
        raise PlumblineError(
            "A worker process was killed, perhaps because memory ran out. Run it again with "
            "fewer workers.",
            key="worker.ended",
        ) from None


Item = TypeVar("Item")
Result = TypeVar("Result")


def in_threads(
    work: Callable[[Item], Result], items: Iterable[Item], most: int | None = None
) -> Iterator[Result]:
    """Yield the result of `work` for each item, in order; the first failure ends the others.

    The work should spend its time in NumPy, which lets other threads run. An item is made
    when a thread is about to be free, so that few are in memory. One item, or one thread,
    is done in this thread.

    Args:
        work: see above. items: see above. most: threads at most; None: as many as there are cores.
    """
    count, waiting = min(usable_threads(), most or sys.maxsize), deque[Future[Result]]()
    items = iter(items)
    first = list(islice(items, 2))
    if count <= 1 or len(first) <= 1:
        yield from (work(item) for item in chain(first, items))
        return
    with ThreadPoolExecutor(count) as pool:
        try:
            for item in chain(first, items):
                if len(waiting) > count:
                    yield waiting.popleft().result()
                waiting.append(pool.submit(work, item))
            while waiting:
                yield waiting.popleft().result()
        except BaseException as error:
            if isinstance(error, KeyboardInterrupt):
                log.info("ending, after what is at work")
            pool.shutdown(wait=True, cancel_futures=True)
            raise


def usable_threads() -> int:
    """Return OMP_NUM_THREADS, which keeps several processes from competing for the cores, or
    the number of cores."""
    # A number for each level of nesting.
    asked = os.environ.get("OMP_NUM_THREADS", "").split(",")[0].strip()
    return (int(asked) if asked.isdecimal() else 0) or cores()


class _Limited:
    """BLAS while blocks of `one_blas_thread` run, on any threads."""

    lock = Lock()
    blocks = 0
    limiter: ClassVar[Any] = None


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """Let the BLAS that NumPy and SciPy use work on one thread within the block, where it
    can be found.

    Products of thousands of rows and a few columns are done before a second thread has
    woken up: waiting for it takes as long as the work.
    """
    with _Limited.lock:
        if not _Limited.blocks:
            _Limited.limiter = _blas().limit(limits=1)
        _Limited.blocks += 1
    try:
        yield
    finally:
        with _Limited.lock:
            _Limited.blocks -= 1
            if not _Limited.blocks:
                _Limited.limiter.restore_original_limits()


@cache
def _blas() -> ThreadpoolController:
    """Return what limits each BLAS that is loaded now. Later ones are not looked for: it takes
    ms."""
    return ThreadpoolController().select(internal_api="openblas")


def undone(jobs: Sequence[AnyJob], stage: str) -> list[AnyJob]:
    """Return the jobs that have no folder yet, and log how many are already done."""
    pending = [job for job in jobs if not job.folder.exists()]
    if len(pending) < len(jobs):
        log.info(
            "%s: going on, %d of %d portions are there from before",
            stage,
            len(jobs) - len(pending),
            len(jobs),
        )
    return pending


def cores() -> int:
    """Return the number of cores that this process may use."""
    return len(os.sched_getaffinity(0)) if sys.platform == "linux" else os.cpu_count() or 1


def work_folder(stage: str, inputs: Sequence[Path], settings: Any, code: Sequence[Path]) -> Path:
    """Return the folder for the portions of one run; it changes with files, settings or code.

    Args:
        stage: its name.
        inputs: files; told apart by path, size and time of change, because reading them is
            the work itself.
        settings: anything that JSON can hold.
        code: folders of source files.
    """
    files = [[str(path.resolve()), path.stat().st_size, path.stat().st_mtime_ns] for path in inputs]
    about = [files, settings, [sha256_folder(folder, "*.py") for folder in code]]
    key = hashlib.sha256(json.dumps(about, sort_keys=True).encode()).hexdigest()
    return WORK.resolve() / stage / key[:16]


@contextmanager
def alone(stage: str, patience_seconds: float = 0.0) -> Iterator[None]:
    """Allow one process at a time to run a stage's portions in a project: a second would
    remove the first one's input.

    At the end, remove the lock file, and the stage's folder and `WORK` if they are empty:
    an analyst's folder stays clean.

    Args:
        stage: its name.
        patience_seconds: how long to wait for another that may be ending.

    Raises:
        InputError: another is at it.
        NotWritable: nothing can be written into the working directory.
    """
    from filelock import FileLock, Timeout  # takes 50 ms, which most commands need not wait for

    path = WORK.resolve() / f"{stage}.lock"
    lock = FileLock(path, timeout=patience_seconds, poll_interval=0.2)
    for tries_left in reversed(range(LOCK_TRIES)):
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            lock.acquire()
            break
        except Timeout:
            raise InputError(
                f"{stage}: another process runs it in {path.parent.parent}. Wait for it, or end "
                "it.",
                key="stage.busy",
            ) from None
        except OSError as error:
            if tries_left and isinstance(error, FileNotFoundError | FileExistsError):
                continue  # another process has just ended, and removed the folder
            raise make_full_disk_error(error, path.parent) or NotWritable(
                f"{path.parent}: cannot be written into ({error.strerror}); it keeps finished "
                "portions of the work. "
                "Make it writable, or run this in another folder.",
                key="work.not_writable",
            ) from error
    try:
        yield
    finally:
        # A process that waits for the file notices that it is gone, and makes another.
        for remove_one in (path.with_name(stage).rmdir, path.unlink, path.parent.rmdir):
            with suppress(OSError):  # a folder that holds portions, or something of other stages
                remove_one()
        lock.release()


def clear(work: Path) -> None:
    """Remove the portions of a finished run, and portions that other runs left behind days ago."""
    remove(work)
    for other in work.parent.iterdir():
        if time.time() - other.stat().st_mtime > KEPT_SECONDS:
            remove(other)


def remove(path: Path) -> None:
    """Remove a folder or file in one step, so that no reader takes a partial folder for a
    complete one."""
    aside = path.with_name(f".{path.name}.removed")
    _delete(aside)  # of a removal that was cut
    with suppress(FileNotFoundError):
        os.replace(path, aside)
    _delete(aside)


def _delete(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)


def one_thread() -> None:
    """Let linear algebra use one thread, so that sums do not depend on the machine; before
    NumPy is loaded."""
    os.environ.update(dict.fromkeys(ONE_THREAD, "1"))


def die_with_parent(parent: int | None = None) -> bool:
    """On Linux, end when the parent does, however that ends; False where the parent is gone
    already.

    Args:
        parent: its number, as told by itself or read early; None: whoever is the parent
            now. That it is 1 says nothing: in a container, the command that was asked for
            has that number.
    """
    if sys.platform != "linux":
        return True
    parent = parent or os.getppid()
    ctypes.CDLL(None, use_errno=True).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    return os.getppid() == parent


def _start(verbose: bool, parent: int) -> None:
    """Set up a new worker process."""
    # The parent is interrupted too, and ends its workers.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    if not die_with_parent(parent):
        os._exit(1)
    setup_logging(verbose)


@contextmanager
def _one_thread() -> Iterator[None]:
    """Limit linear algebra to one thread in processes that are started within the block."""
    before = {name: os.environ.get(name) for name in ONE_THREAD}
    os.environ.update(dict.fromkeys(ONE_THREAD, "1"))
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


ALONE, BESIDE = 100_000, 1_000
"""Rounds of waiting before a thread sleeps."""
SET_BY_USER = ("GOMP_SPINCOUNT", "OMP_WAIT_POLICY")
LOOKS, BETWEEN_S = 5, 0.01
LOAD = Path("/proc/loadavg")


def set_spinning(environment: MutableMapping[str, str] = os.environ) -> None:
    """Set `GOMP_SPINCOUNT` before torch is loaded, unless the user has set it."""
    if (
        any(name in environment for name in SET_BY_USER)
        or environment.get("OMP_NUM_THREADS") == "1"
    ):
        return
    environment["GOMP_SPINCOUNT"] = str(BESIDE if others_at_work() else ALONE)


def others_at_work(load: Path = LOAD) -> bool:
    """Return whether another process wants a core in most of a few samples; False if that
    cannot be measured."""
    n_runnable = []
    for look in range(LOOKS):
        if look:
            time.sleep(BETWEEN_S)
        try:
            # Runnable now, this process among them.
            n_runnable.append(int(load.read_text().split()[3].partition("/")[0]))
        except (OSError, ValueError, IndexError):
            return False
    return statistics.median(n_runnable) > 1
