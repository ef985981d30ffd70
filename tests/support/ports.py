"""Ports for servers that must be told theirs."""

from __future__ import annotations

import random
import socket
from pathlib import Path

_RANGE = Path("/proc/sys/net/ipv4/ip_local_port_range")
_LOWEST = 15_000


def server_port() -> int:
    """A port that nothing listens on, and that the system gives to no connection and to nobody who asks for any port.

    So it stays free until its server has it, and while that one is stopped for a while.
    """
    first_given = int(_RANGE.read_text().split()[0]) if _RANGE.exists() else 32_768
    for port in random.sample(range(_LOWEST, max(first_given, _LOWEST + 1_000)), 100):
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port
    raise RuntimeError("no free port was found")
