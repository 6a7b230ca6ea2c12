"""Whether the files that this process runs from are still there.

An executor brings its environment along, and Spark deletes that with its application. An agent outlives the executor
that started it, and imports some of its code when it needs it. Without its files it makes way for the next one.
"""

import sys
from pathlib import Path


class OwnCode:
    def __init__(self) -> None:
        # Those that are files now: a package in a zip archive is none.
        self._files = [path for path in (Path(sys.executable), Path(__file__)) if path.is_file()]

    def is_there(self) -> bool:
        return all(path.exists() for path in self._files)
