"""The same work on any number of processes, with its results in the same order."""

from __future__ import annotations

import ctypes
import os
import signal
import sys
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from multiprocessing import get_context
from typing import Any, TypeVar

from plumbline.errors import PlumblineError

PR_SET_PDEATHSIG = 1
Result = TypeVar("Result")


class Workers:
    """Processes that take work; with one, this process does the work itself."""

    def __init__(self, count: int) -> None:
        """`count` processes, started when the first work comes."""
        self._count = count
        self._pool: ProcessPoolExecutor | None = None

    def __enter__(self) -> Workers:
        if self._count > 1:
            self._pool = ProcessPoolExecutor(self._count, get_context("spawn"), _end_with_parent, (os.getpid(),))
        return self

    def __exit__(self, *error: object) -> None:
        if self._pool:
            self._pool.shutdown(wait=True, cancel_futures=True)

    def in_order(self, function: Callable[..., Result], jobs: Iterable[tuple[Any, ...]]) -> Iterator[Result]:
        """Results of `function(*job)` in the order of the jobs, a few of which are worked on ahead.

        Args:
            function: of a module, so that another process finds it.
            jobs: its arguments.

        Raises:
            PlumblineError: a process was ended from outside.
        """
        if not self._pool:
            yield from (function(*job) for job in jobs)
            return
        ahead: deque[Future[Result]] = deque()
        try:
            for job in jobs:
                ahead.append(self._pool.submit(function, *job))
                if len(ahead) > 2 * self._count:
                    yield ahead.popleft().result()
            while ahead:
                yield ahead.popleft().result()
        except BrokenProcessPool:
            raise PlumblineError(
                "A worker process was ended from outside, for want of memory perhaps. Run it again with fewer workers."
            ) from None


def _end_with_parent(parent: int) -> None:
    """A worker whose parent was killed would wait for work for ever; an interrupt is the parent's to answer."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != parent:
            os._exit(1)
