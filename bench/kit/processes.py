"""What runs beside a benchmark: processes of ours that are told what to do in lines of JSON, and threads."""

import json
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

Process = subprocess.Popen[str]


def started(module: str, *words: str, environment: Mapping[str, str] | None = None) -> Process:
    """`python -m MODULE WORDS`, with pipes to and from it."""
    command = [sys.executable, "-m", module, *words]
    pipe = subprocess.PIPE
    return subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True, env=environment)


def tell(process: Process, what: object) -> None:
    if process.stdin is not None:
        process.stdin.write(json.dumps(what) + "\n")
        process.stdin.flush()


@contextmanager
def running(target: Callable[[], None], stopped: threading.Event) -> Iterator[None]:
    """In a thread, which ends soon after `stopped` is set; it is at the end of the block."""
    thread = threading.Thread(target=target)
    thread.start()
    try:
        yield
    finally:
        stopped.set()
        thread.join()
