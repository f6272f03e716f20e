"""The same work on any number of processes, with its results in the same order."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from contextlib import ExitStack
from typing import Any, TypeVar

from plumbline.core.jobs import processes

Result = TypeVar("Result")


class Workers:
    """Processes that take work; with one, this process does the work itself."""

    def __init__(self, count: int) -> None:
        """`count` processes, started when the first work comes."""
        self._count = count
        self._held = ExitStack()
        self._pool: ProcessPoolExecutor | None = None

    def __enter__(self) -> Workers:
        if self._count > 1:
            self._pool = self._held.enter_context(processes(self._count))
        return self

    def __exit__(self, *error: Any) -> None:
        """End the processes.

        Raises:
            PlumblineError: one was ended from outside.
        """
        self._held.__exit__(*error)

    def in_order(self, function: Callable[..., Result], jobs: Iterable[tuple[Any, ...]]) -> Iterator[Result]:
        """Results of `function(*job)` in the order of the jobs, a few of which are worked on ahead.

        Args:
            function: of a module, so that another process finds it.
            jobs: its arguments.
        """
        if not self._pool:
            yield from (function(*job) for job in jobs)
            return
        ahead: deque[Future[Result]] = deque()
        for job in jobs:
            ahead.append(self._pool.submit(function, *job))
            if len(ahead) > 2 * self._count:
                yield ahead.popleft().result()
        while ahead:
            yield ahead.popleft().result()
