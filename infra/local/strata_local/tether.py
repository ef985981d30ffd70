"""Start a program that ends when its parent does: `python tether.py PARENT SIGNAL UID GID PROGRAM ARGUMENT…`.

Linux sends the signal when the *thread* that started this process ends, so that thread has to wait for it. Elsewhere
there is no such signal: function processes then end by themselves, because their Runtime API is gone. A UID of -1
leaves the user as it is. It is a program of its own and not `preexec_fn`, which is not safe beside threads; it imports
nothing of the project, so it starts in a few milliseconds.
"""

from __future__ import annotations

import ctypes
import os
import sys

PR_SET_PDEATHSIG = 1


def main(arguments: list[str]) -> None:
    parent, signal_number, uid, gid = (int(argument) for argument in arguments[:4])
    if uid >= 0:  # from here on the interpreter's own files may be out of reach: nothing is imported later
        os.setgroups([])
        os.setgid(gid)
        os.setuid(uid)
    if sys.platform == "linux":
        libc = ctypes.CDLL(None, use_errno=True)
        if libc.prctl(PR_SET_PDEATHSIG, signal_number, 0, 0, 0) != 0:
            raise OSError(ctypes.get_errno(), "prctl(PR_SET_PDEATHSIG)")
    if os.getppid() != parent:
        sys.exit("The parent ended before its child had started.")
    os.execv(arguments[4], arguments[4:])  # noqa: S606 - a program and its arguments, never a shell's text


if __name__ == "__main__":
    main(sys.argv[1:])
