"""`python -m enrich.agent`: takes the pipeline from standard input and leaves the agent behind in the background.

Standard input, because secrets belong neither into arguments nor the environment nor on disk. The process that was
started ends at once, so that its starter has no child to wait for. The agent itself is init's child, in a session of
its own: what ends the starter's process group (Spark's daemon sends SIGHUP) does not end the agent.
"""

import json
import os
import sys

start = json.load(sys.stdin)
# Before anything is imported that might start a thread: a thread does not survive a fork, its locks do.
if os.fork() > 0:
    os._exit(0)
os.setsid()

from enrich.agent.process import run  # noqa: E402 - see above

sys.exit(run(start))
