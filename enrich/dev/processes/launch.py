"""The child's side of a start: a small separate program, run by path, that becomes the server.

It writes its process id into the run file before it becomes the server, so its parent may be killed at any instant
without leaving an unknown process. File descriptor 3 is the run file, locked; it stays open in the server: the lock
lasts as long as the server or any of its children lives. (Standard library only: `python -I -S` starts in 12 ms.)
"""

import ctypes
import json
import os
import signal
import sys
from contextlib import suppress
from typing import Any

RUN_FILE = 3

_PR_SET_SECUREBITS = 28
_SECBIT_NO_SETUID_FIXUP = 1 << 2
_PR_CAP_AMBIENT = 47
_PR_CAP_AMBIENT_RAISE = 2
_CAPABILITY_VERSION_3 = 0x20080522


def main() -> None:
    order: dict[str, Any] = json.loads(sys.argv[1])
    for inherited in [int(name) for name in os.listdir("/proc/self/fd")]:  # noqa: PTH208 - without pathlib: faster
        if inherited > RUN_FILE:
            with suppress(OSError):
                os.close(inherited)
    with open("/proc/self/stat", encoding="utf-8", errors="replace") as file:  # noqa: PTH123 - without pathlib: faster
        started = int(file.read().rpartition(")")[2].split()[19])
    record = {"pid": os.getpid(), "started": started, "step": order["step"], "place": order["place"]}
    os.pwrite(RUN_FILE, json.dumps(record).encode(), 0)
    # Python ignores SIGPIPE, a shell's `&` ignores SIGINT, and some parents SIGCHLD: all are inherited.
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGPIPE, signal.SIGQUIT, signal.SIGCHLD):
        signal.signal(number, signal.SIG_DFL)
    if order["user"] is not None:
        _become(**order["user"])
    os.chdir(order["folder"])
    os.execvp(order["argv"][0], order["argv"])  # noqa: S606 - no shell wanted


def _become(uid: int, gid: int, capability: int | None) -> None:
    """Gives up root permanently, except for one capability if given."""
    libc = ctypes.CDLL(None, use_errno=True)
    if capability is not None:
        # Without this bit a change of user clears the capabilities, and access(2), with which PostgreSQL checks its
        # programs, would ignore the one that is kept.
        _check(libc.prctl(_PR_SET_SECUREBITS, _SECBIT_NO_SETUID_FIXUP, 0, 0, 0))
    os.setgroups([])
    os.setresgid(gid, gid, gid)
    os.setresuid(uid, uid, uid)
    if capability is not None:
        bit = 1 << capability
        header = (ctypes.c_uint32 * 2)(_CAPABILITY_VERSION_3, 0)
        # effective, permitted, inheritable; then the same for capabilities from 32 on
        sets = (ctypes.c_uint32 * 6)(bit, bit, bit, 0, 0, 0)
        _check(libc.capset(header, sets))
        _check(libc.prctl(_PR_CAP_AMBIENT, _PR_CAP_AMBIENT_RAISE, capability, 0, 0))


def _check(result: int) -> None:
    if result != 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))


if __name__ == "__main__":
    try:
        main()
    except OSError as error:
        sys.stderr.write(f"cannot start: {error}\n")
        sys.exit(126)
