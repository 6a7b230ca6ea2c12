"""An agent that meets what a test wants it to meet: a program, started as `enrich.host` is, with a file as argument.

The file names faults, one a line, while they last: `kill TABLE` ends each load of the table by kill -9, `swap TABLE`
fails when a load is to be shown, `segments TABLE` when a segment is to be written. Wrappers of the interfaces, in this
process and those that it forks; the rest is the agent itself.
"""

import json
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from enrich.base.folders import make_folder
from enrich.host.ipc.lock import StoreLock
from enrich.host.load import child as load_child
from enrich.host.process.program import run
from stores.rocks import RocksStore


def main(faults: Path) -> int:
    def is_on(fault: str, table: str) -> bool:
        return f"{fault} {table}" in faults.read_text(encoding="utf-8").splitlines()

    def unless_broken(fault: str, table_of: Callable[..., str], call: Callable[..., Any]) -> Callable[..., Any]:
        def wrapped(*arguments: Any) -> Any:
            table = table_of(*arguments)
            if is_on(fault, table):
                if fault == "kill":
                    os.kill(os.getpid(), signal.SIGKILL)
                raise RuntimeError(f"{fault} met what nobody has thought of")
            return call(*arguments)

        return wrapped

    from stores.segments.write import base, build, writer

    build_segment = unless_broken("segments", lambda path, *_: path.name.split("-")[0], build.build_segment)
    for module in (base, writer):
        module.build_segment = build_segment  # type: ignore[attr-defined]  # the wrapper, where it is called
    load_child.load_table = unless_broken("kill", lambda _, order, *__: order.table.name, load_child.load_table)  # type: ignore[attr-defined]
    RocksStore.swap = unless_broken("swap", lambda _, table, *__: table.name, RocksStore.swap)  # type: ignore[method-assign]
    start = json.load(sys.stdin)
    path = Path(start["lock"])
    make_folder(path.parent)
    lock = StoreLock.try_take(path)
    assert lock is not None, "another agent runs already"
    return run(start, lock)


if __name__ == "__main__":
    os._exit(main(Path(sys.argv[1])))
