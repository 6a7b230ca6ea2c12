"""The system's clocks, as implementations of the protocol `Clock`."""

import os
import time
from functools import cache
from pathlib import Path


class SystemClock:
    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000


class SteadyClock:
    """Milliseconds since the system started, suspend included. Nobody can set it, and all processes see the same."""

    def now_ms(self) -> int:
        return time.clock_gettime_ns(time.CLOCK_BOOTTIME) // 1_000_000


@cache
def boot_id() -> str:
    """Changes with each start of the system, when the steady clock begins anew. If the system has no boot id, each
    process counts as a start of its own."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    except OSError:
        return f"process {os.getpid()}"
