"""What a process of ingest does until all requests are answered, and how long that may take."""

import asyncio

from edge_service.ingest import program
from edge_service.ingest.processes import parent, worker
from edge_service.ingest.processes.worker import until_over
from enrich.tally import writing


def test_what_came_while_it_was_at_work_is_told_as_well() -> None:
    async def run() -> list[str]:
        over, came, told = asyncio.Event(), ["early"], []

        async def tell() -> None:
            told.extend(came)
            came.clear()
            await asyncio.sleep(0)  # another thread writes what was taken
            if not over.is_set():
                came.append("late")  # the last request is answered meanwhile
                over.set()

        await until_over(over, tell, 60)
        return told

    assert asyncio.run(run()) == ["early", "late"]


def test_a_process_whose_senders_are_slow_has_time_to_tell_what_it_acknowledged() -> None:
    longest_s = worker._LEAVE_S + worker._MOST_PATIENCE_S + writing._CLOSE_S + writing._LAST_TURN_S
    assert longest_s < worker._STOP_S < parent._KILL_S < program._STOP_S
