"""`python -m enrich.host`: reads the pipeline from standard input and starts the agent as a daemon.

Standard input, because secrets must not be in arguments, in the environment or on disk. The started process ends at
once, so that its starter has no child to wait for. The agent is init's child in a session of its own: a signal to the
starter's process group (Spark's daemon sends SIGHUP) does not end it.
"""

import json
import logging
import os
import sys
from pathlib import Path

start = json.load(sys.stdin)
# Fork before importing anything that may start a thread: a thread does not survive a fork, but its locks do.
if os.fork() > 0:
    os._exit(0)
os.setsid()

from enrich.base.folders import make_folder  # noqa: E402
from enrich.host.ipc.lock import StoreLock  # noqa: E402 - see above

# Take the lock before the slow imports. Workers of a host may start several agents at once: all but one end here. If
# one took part in the election late, the winner might have stopped already, and the late one would replace it.
path = Path(start["lock"])
make_folder(path.parent)
lock = StoreLock.try_take(path)
if lock is None:
    sys.exit(0)  # another agent has the store: nothing to do

from enrich.host.process.program import run  # noqa: E402

code = run(start, lock)
logging.shutdown()
# Not sys.exit, which waits for every thread: their work can be lost without harm, and may take minutes.
os._exit(code)
