"""The system's clock, behind the protocol by which engines get the time."""

import time


class SystemClock:
    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000
