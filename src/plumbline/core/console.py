"""Show the progress of long work: rich on a terminal, plain log lines elsewhere."""

from __future__ import annotations

import json
import logging
import re
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextvars import ContextVar
from datetime import UTC, datetime
from typing import Any, Literal, TypeVar

from rich.console import Console
from rich.logging import RichHandler
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

Item = TypeVar("Item")
console = Console(stderr=True)
log = logging.getLogger("plumbline")
SECONDS_BETWEEN_LINES = 5.0
LogFormat = Literal["text", "json"]
request_id: ContextVar[str | None] = ContextVar("request_id", default=None)
"""Name of the HTTP request that is worked on; None outside of one."""
_PASSWORD = re.compile(r"(://[^:/@\s]*):[^@/\s]+@")


def setup_logging(verbose: bool = False, process: int = 0) -> None:
    """Send the package's log to standard error: rich on a terminal, `LEVEL message` lines
    elsewhere.

    Args:
        verbose: say more.
        process: of several that do one thing, the first, 0, speaks for all; of others only
            errors are said, with their number.
    """
    who = f"process {process}: " if process else ""
    if console.is_terminal:
        handler: logging.Handler = RichHandler(console=console, show_path=False, show_time=False)
        handler.setFormatter(logging.Formatter(f"{who}%(message)s"))
    else:
        handler = logging.StreamHandler(sys.stderr)
        handler.setFormatter(logging.Formatter(f"%(levelname)s {who}%(message)s"))
    log.handlers = [handler]
    log.setLevel(logging.ERROR if process else logging.DEBUG if verbose else logging.INFO)
    log.propagate = False


class JsonFormatter(logging.Formatter):
    """Writes a message as one line of JSON: time (UTC), level, message, key, request, and
    its `fields`."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the line."""
        time_utc = datetime.fromtimestamp(record.created, UTC)
        content: dict[str, Any] = {
            "time": time_utc.isoformat(timespec="milliseconds").replace("+00:00", "Z"),
            "level": record.levelname,
            "message": record.getMessage(),
        }
        if key := getattr(record, "key", None):
            content["key"] = key
        if request := request_id.get():
            content["request_id"] = request
        content |= getattr(record, "fields", {})
        if record.exc_info:
            content["traceback"] = self.formatException(record.exc_info)
        return json.dumps(content, ensure_ascii=False, default=str)


def setup_json_logging() -> None:
    """Send the log of the package, and that of the web server, to standard error as JSON lines."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonFormatter())
    for logger, level in ((log, logging.INFO), (logging.getLogger("uvicorn"), logging.WARNING)):
        logger.handlers = [handler]
        logger.setLevel(level)
        logger.propagate = False


def warn(message: str, *values: object, key: str) -> None:
    """Log a warning for the user.

    Args:
        message: file, row, column or parameter, what was found, and what to do; `values`
            fill in its `%s`.
        key: `subject.problem`, as `points.no_overlap`: names the check, whatever the
            wording of its message.
    """
    log.warning(message, *values, extra={"key": key})


Listener = Callable[[str, int, int], None]
_listeners: list[Listener] = []


def listen(listener: Listener) -> None:
    """Call `listener` from now on with the name of the work, the number done and the total."""
    _listeners.append(listener)


def track(items: Iterable[Item], total: int, name: str, finished: bool = False) -> Iterator[Item]:
    """Yield `items` while showing how far along they are, and about how long the rest takes.

    Args:
        items: pieces of work. total: their number. name: name of the work.
        finished: an item comes once its work is done, as from other processes; else before
            its work begins.
    """
    if console.is_terminal:
        columns = (
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeRemainingColumn(),
        )
        with Progress(*columns, console=console, transient=True) as progress:
            yield from progress.track(items, total=total, description=name)
        return
    begin = last = time.monotonic()
    for done, item in enumerate(items, int(finished)):
        for listener in _listeners:
            listener(name, done, total)
        now = time.monotonic()
        if now - last > SECONDS_BETWEEN_LINES:
            last = now
            seconds_left = (now - begin) * (total - done) / max(done, 1)
            remaining = f", about {rounded_time(seconds_left)} left" if 0 < done < total else ""
            log.info("%s: %d of %d%s", name, done, total, remaining)
        yield item


def rounded_time(seconds: float) -> str:
    """Return a rounded time with its unit: `40 s`, `3 min`, `2.5 h`."""
    if seconds < 57.5:
        return f"{max(5, 5 * round(seconds / 5))} s"
    return f"{max(1, round(seconds / 60))} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"


def hidden(text: str) -> str:
    """Hide the passwords in the addresses of a text."""
    return _PASSWORD.sub(r"\1:***@", text)
