"""An agent that is told to stop ends soon: nothing that takes long holds anything that counts."""

import threading

from tests.support.clock import ManualClock
from tests.support.host.loader_agent import loader_agent


def test_an_agent_ends_although_it_reads_a_large_store_to_find_damage(tmp_path):
    goes_on, reads = threading.Event(), threading.Event()

    def verify():
        reads.set()
        goes_on.wait(600)

    table = "{loader: {file: /nowhere.csv, key: [key]}, columns: 'n int'}"
    with loader_agent(tmp_path, table, ManualClock()) as one:
        one.agent._verify = verify
        one.agent.suspect()
        one.until(lambda _: reads.is_set(), "the look for damage")
        closing = threading.Thread(target=one.agent.close)
        closing.start()
        closing.join(60)
        try:
            assert not closing.is_alive()
        finally:
            goes_on.set()
            closing.join()
