"""What a process of ingest does again and again until all requests are answered."""

import asyncio

from edge_service.ingest.processes.worker import until_over


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
