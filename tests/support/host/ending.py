"""Ends the agents of a pipeline when a test is over, if any live."""

from enrich.config import Pipeline
from enrich.host.ipc.store_paths import StorePaths, paths_of
from enrich.host.reader.spawn import living_agent, stop_agent
from tests.support.processes import is_running, kill
from tests.support.waiting import wait_until


def stop_agent_of(pipeline: Pipeline) -> None:
    """That of other versions of its tables, too: each has one of its own, which stays for a quarter of an hour."""
    for folder in paths_of(pipeline).folder.parent.glob("*/"):
        paths = StorePaths(folder)
        header = living_agent(paths)
        if header is not None:
            stop_agent(paths, header, deadline_s=120)


def kill_agent_of(pipeline: Pipeline) -> None:
    """kill -9, of those too that a reader starts meanwhile."""

    def is_gone() -> bool:
        header = living_agent(paths_of(pipeline))
        if header is not None and is_running(header.pid):
            kill(header.pid)
        return header is None

    wait_until(is_gone, what="the end of the agent")
