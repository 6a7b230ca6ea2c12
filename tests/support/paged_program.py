"""A program with a page, as containers run it. The address of the page is the one that it logs."""

import http.client
import itertools
import re
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TypeVar

from tests.support.waiting import GUARD_S, wait_until

_PAGE = re.compile(r"the (?:status|page) is on http://([^\s/]+)/")
_NUMBERS = itertools.count()


class PagedProgram:
    def __init__(self, process: "subprocess.Popen[bytes]", log: Path) -> None:
        self.process = process
        self.log = log

    @property
    def page(self) -> str:
        def found() -> str | None:
            assert self.process.poll() is None, self.said()
            match = _PAGE.search(self.said())
            return None if match is None else match[1]

        return str(wait_until(found, what="the address of the page"))

    def said(self) -> str:
        return self.log.read_text()

    def ask(self, path: str, **headers: str) -> tuple[int, bytes]:
        with closing(http.client.HTTPConnection(self.page, timeout=GUARD_S)) as connection:
            connection.request("GET", path, headers=headers)
            answer = connection.getresponse()
            return answer.status, answer.read()

    def stop(self) -> int:
        """SIGTERM; how it ended."""
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(GUARD_S)


_Program = TypeVar("_Program", bound=PagedProgram)


@contextmanager
def program(kind: type[_Program], words: Sequence[str], config: Path) -> Iterator[_Program]:
    """What `python -m` has by these words, just started; killed at the end, if it still runs."""
    log = config.with_suffix(f".{words[-1]}.{next(_NUMBERS)}.log")
    command = [sys.executable, "-m", *words, "-c", str(config)]
    with log.open("wb") as file, subprocess.Popen(command, stderr=file, stdin=subprocess.DEVNULL) as process:
        try:
            yield kind(process, log)
        finally:
            if process.poll() is None:
                process.kill()
