"""Waits for a connection of libpq."""

import select


def arrived(descriptor: int, seconds: float) -> bool:
    """Whether there is something to read, by then. Unlike `select`, whatever the descriptor's number is: a service with
    many routes has more than 1,024."""
    poll = select.poll()
    poll.register(descriptor, select.POLLIN)
    return bool(poll.poll(seconds * 1000))
