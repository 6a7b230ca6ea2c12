"""`python -m enrich.host`: takes the pipeline from standard input and leaves the agent behind in the background.

Standard input, because secrets belong neither into arguments nor the environment nor on disk. The process that was
started ends at once, so that its starter has no child to wait for. The agent itself is init's child, in a session of
its own: what ends the starter's process group (Spark's daemon sends SIGHUP) does not end the agent.
"""

import json
import logging
import os
import sys
from pathlib import Path

start = json.load(sys.stdin)
# Before anything is imported that might start a thread: a thread does not survive a fork, its locks do.
if os.fork() > 0:
    os._exit(0)
os.setsid()

from enrich.base.folders import make_folder  # noqa: E402
from enrich.host.ipc.lock import StoreLock  # noqa: E402 - see above

# Before the imports, which are most of a start: of those that a host's workers start at the same time all but one end
# here. One that came to the election late could find the agent already stopped again, and take its place.
path = Path(start["lock"])
make_folder(path.parent)
lock = StoreLock.try_take(path)
if lock is None:
    sys.exit(0)  # another agent has the store, which is what was wanted

from enrich.host.process.program import run  # noqa: E402

code = run(start, lock)
logging.shutdown()
# Not by sys.exit, which waits for every thread: what one is still at holds nothing that counts, and may take minutes.
os._exit(code)
