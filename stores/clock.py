"""The system's clocks, as implementations of the protocol `Clock`."""

import time


class SystemClock:
    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000


class SteadyClock:
    """Milliseconds since the system started, suspend included. Nobody can set it, and all processes see the same."""

    def now_ms(self) -> int:
        return time.clock_gettime_ns(time.CLOCK_BOOTTIME) // 1_000_000
