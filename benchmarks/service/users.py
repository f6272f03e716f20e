"""Users of the service for locust: each asks for a batch of tensors again and again.

The body and its address come from the environment, so that every user sends the same bytes.
"""

from __future__ import annotations

import os
from pathlib import Path

from locust import FastHttpUser, task

from benchmarks.service import BODY, HEADER, WHERE


class Asking(FastHttpUser):
    """Asks without a pause."""

    def on_start(self) -> None:
        """Read what is sent."""
        self._body = Path(os.environ[BODY]).read_bytes()
        self._headers = {
            "Content-Type": "application/octet-stream",
            "Inference-Header-Content-Length": os.environ[HEADER],
        }

    @task
    def infer(self) -> None:
        """Ask once."""
        self.client.post(os.environ[WHERE], data=self._body, headers=self._headers, name="infer")
