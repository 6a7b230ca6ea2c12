"""The system's clocks, behind the protocol by which engines get the time."""

import time


class SystemClock:
    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000


class SteadyClock:
    """Milliseconds since the system started, sleep included. Nobody can set it, and all processes have the same."""

    def now_ms(self) -> int:
        return time.clock_gettime_ns(time.CLOCK_BOOTTIME) // 1_000_000
