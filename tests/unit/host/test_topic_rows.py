"""What an update of a table says of its topic."""

from contextlib import closing

from confluent_kafka import Message

from enrich.host.claims.moments import Clocks
from enrich.host.claims.notes import EPOCHS, epochs_of
from enrich.host.follow.tailer import Tailed
from enrich.host.follow.topic_rows import TopicRows
from stores.protocol import TableUpdate
from stores.rocks import RocksStore
from stores.table import row_versions
from tests.support.clock import ManualClock
from tests.support.host.agents import plans_table


def test_what_is_read_again_for_another_table_does_not_take_the_leaders_term_back(tmp_path):
    table, clock = plans_table("topic"), ManualClock()
    with closing(RocksStore(tmp_path, {"users": table.spec}, clock)) as store:
        known = {EPOCHS: '{"0": 5, "1": 5}'}
        store.publish({"users": TableUpdate(row_versions(()), {0: 100, 1: 10}, notes=known)})
        rows = TopicRows(table, store, Clocks(clock, clock))
        messages = [
            Message(topic="topic", partition=partition, offset=offset, key=b"k", value=b"{}", timestamp=(1, 0))
            for partition, offset in ((0, 59), (1, 10))
        ]
        update = rows.update_of(Tailed(messages, {0: 60, 1: 11}, {0: 3, 1: 6}))
    assert update.positions == {0: 100, 1: 11}
    assert epochs_of(update.notes or {}) == {0: 5, 1: 6}
