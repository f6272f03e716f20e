"""Kill a process right before its n-th write, so that a piece of work is seen cut at every step.

Steps are what the running interpreter does, and no list of ours: every file opened for writing, made, renamed or
removed, every statement that changes a database, and every commit of such statements.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from sqlalchemy import event
from sqlalchemy.engine import Engine

from plumbline.core.jobs import die_with_parent

CHANGES = {"os.rename", "os.remove", "os.mkdir", "os.rmdir", "os.truncate", "os.link", "os.symlink"}
WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC


@dataclass
class Cut:
    """Counts steps, and kills this process before the `at`-th (from 1; 0: never)."""

    at: int
    steps: list[str] = field(default_factory=list)
    changed: bool = False
    """Something waits for a commit."""

    def step(self, what: str) -> None:
        self.steps.append(what)
        if len(self.steps) == self.at:
            os.kill(os.getpid(), signal.SIGKILL)

    def begin(self) -> None:
        """Count from here on; an audit hook cannot be taken off again, so this is the process's last work."""
        sys.addaudithook(self._audit)
        event.listen(Engine, "before_cursor_execute", self._statement)
        event.listen(Engine, "commit", self._commit)

    def _audit(self, name: str, about: tuple[Any, ...]) -> None:
        if name in CHANGES:
            self.step(f"{name} {about[0]!s}")
        elif name == "open" and isinstance(about[2], int) and about[2] & WRITING and about[0] != os.devnull:
            self.step(f"open {about[0]!s}")

    def _statement(self, _connection: Any, _cursor: Any, statement: str, *_: Any) -> None:
        if statement.split(None, 1)[0].upper() in ("INSERT", "UPDATE", "DELETE"):
            self.step(" ".join(statement.split()[:3]))
            self.changed = True

    def _commit(self, _connection: Any) -> None:
        if self.changed:
            self.step("commit")
            self.changed = False


def forked(work: Callable[[], Any]) -> Any:
    """What `work` returns (JSON), done in a child process; the number of the signal, negative, that killed the child.

    Raises:
        RuntimeError: `work` raised; its words are in the message.
    """
    receive, send = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(receive)
        die_with_parent()
        try:
            told = json.dumps({"result": work()})
        except BaseException as error:
            told = json.dumps({"error": f"{type(error).__name__}: {error}"})
        with os.fdopen(send, "w") as stream:
            stream.write(told)
        os._exit(0)
    os.close(send)
    with os.fdopen(receive) as stream:
        said = stream.read()
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    if status:
        return status
    told = json.loads(said)
    if "error" in told:
        raise RuntimeError(told["error"])
    return told["result"]
