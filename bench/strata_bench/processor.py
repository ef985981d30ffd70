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
    return tree_cpu_s(postmaster)


def tree_cpu_s(root: int, *, but: int = 0) -> float:
    """Of a process and all below it, also those that have ended; without the tree below `but`.

    0.0 where the system does not tell.
    """
    parents, ticks = {}, {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rpartition(")")[2].split()
        except OSError:
            continue  # it has just ended
        parents[pid := int(stat.parent.name)] = int(fields[1])
        ticks[pid] = sum(map(int, fields[11:15]))
    below, found = set(), {root} & ticks.keys()
    while found:
        below |= found
        found = {pid for pid, parent in parents.items() if parent in found and pid != but}
    return sum(ticks[pid] for pid in below) / os.sysconf("SC_CLK_TCK")
