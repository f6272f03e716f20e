"""Ports of this machine for servers of tests."""

from __future__ import annotations

import random
import socket
from pathlib import Path

LOWEST = 10_000
RANGE = Path("/proc/sys/net/ipv4/ip_local_port_range")
"""The ports that the system hands out itself begin here: to connections, and to servers that ask for any port."""
_claims: list[socket.socket] = []
_chance = random.SystemRandom()


def free_port() -> int:
    """Return a port of 127.0.0.1 that nobody listens at, for a server that starts later.

    Until this process ends, no other test is given it, in whichever run on this machine; nor does the system hand it
    out.
    """
    highest = int(RANGE.read_text().split()[0]) if RANGE.exists() else 32_768
    while True:
        port = _chance.randrange(LOWEST, max(highest, LOWEST + 10_000))
        claim = socket.socket(socket.AF_UNIX)
        with socket.socket() as probe:
            try:
                claim.bind(f"\0plumbline-test-port-{port}")  # a name without a file, which goes with the process
                probe.bind(("127.0.0.1", port))
            except OSError:
                claim.close()
                continue
        _claims.append(claim)
        return port
