"""Processor time: on a busy machine it says more than the clock."""

from __future__ import annotations

import os
import resource
from pathlib import Path


def own_cpu_s() -> float:
    """Of this process and of the workers that have ended."""
    usages = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(usage.ru_utime + usage.ru_stime for usage in usages)


def server_cpu_s(postmaster: int) -> float:
    """Of the server and its processes, also those that have ended; 0.0 where the system does not tell."""
    ticks = 0
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rpartition(")")[2].split()
        except OSError:
            continue  # it has just ended
        if int(stat.parent.name) == postmaster:
            ticks += sum(map(int, fields[11:15]))
        elif int(fields[1]) == postmaster:
            ticks += sum(map(int, fields[11:13]))
    return ticks / os.sysconf("SC_CLK_TCK")
