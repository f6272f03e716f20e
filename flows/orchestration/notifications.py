"""Send messages to a local file or by mail, beside Prefect's own channels (webhooks, Slack,
Teams, ...).

`prefect block register --module flows.orchestration.notifications` makes both known to a
server; docs/score.md says how to choose one.
"""

from __future__ import annotations

import json
import os
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from prefect.blocks.abstract import NotificationBlock
from prefect.blocks.core import Block
from prefect.blocks.notifications import AbstractAppriseNotificationBlock
from pydantic import Field, SecretStr

MESSAGES = Path("data/score/messages.jsonl")


class LocalFile(NotificationBlock):
    """A file on this machine, one JSON object per line: `time`, `subject`, `body`."""

    _block_type_name = "Plumbline File"
    _block_type_slug = "plumbline-file"

    path: Path = Field(default=MESSAGES, description="It is made where it is not there.")

    def notify(self, body: str, subject: str | None = None) -> None:  # type: ignore[override]
        """Append a message; it is on disk before this returns."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        line = json.dumps({"time": datetime.now(UTC).isoformat(), "subject": subject, "body": body})
        with self.path.open("ab") as stream:
            stream.write(line.encode() + b"\n")
            stream.flush()
            os.fsync(stream.fileno())


class Mail(AbstractAppriseNotificationBlock):
    """Mail by SMTP, through Apprise."""

    _block_type_name = "Plumbline Mail"
    _block_type_slug = "plumbline-mail"

    url: SecretStr = Field(
        description="As Apprise takes it: mailtos://USER:PASSWORD@HOST:587?from=A@HOST&to=B@HOST.",
    )


def sink(name: str | None) -> Any:
    """Return the user's block, `TYPE/NAME` as `prefect block ls` lists it; the local file
    without one.

    Raises:
        ValueError: there is no such block, or it cannot notify.
    """
    if name is None:
        return LocalFile()
    block: Any = Block.load(name)
    if not isinstance(block, NotificationBlock):
        raise ValueError(f"block {name} cannot send messages; choose one of a type that notifies")
    return block
