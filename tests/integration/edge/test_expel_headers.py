"""Events are delivered whatever headers they bring."""

from contextlib import closing

import pyarrow as pa

from enrich.kafka import new_producer
from enrich.kafka.columnar import HEADERS, Records
from enrich.kafka.columnar.native import NativeOutgoing
from enrich.kafka.records import NO_NAME
from tests.support.edge.expel import Endpoint, ExpelWorld, expelling
from tests.support.kafka.topics import Cluster
from tests.support.waiting import GUARD_S


def test_a_header_whose_name_is_no_text_keeps_nothing_from_going(cluster: Cluster) -> None:
    world = ExpelWorld(cluster, pauses=("1h",), section={"batch": {"events": 1}})
    world.make()
    events = [b"%d" % one for one in range(100)]
    headers = pa.array([[{"key": b"\xff", "value": b"x"}, {"key": b"plan", "value": b"pro"}]] * 100, HEADERS)
    producer = new_producer(cluster.connection)
    with closing(NativeOutgoing(producer)) as out:
        out.write(Records.of(world.topic(), pa.array([b"key"] * 100), pa.array(events), headers), GUARD_S)
        assert producer.flush(GUARD_S) == 0
    answers = {7: 400, 8: 503}
    with Endpoint(lambda ids: answers.get(ids[0], 200)) as endpoint:
        world.url = endpoint.url()
        with expelling(world):
            world.wait_until_all_is_committed()
        assert set(endpoint.delivered) == set(range(100)) - {7, 8}
    ((dead, letter),) = world.dead().items()
    assert (dead, letter.headers[NO_NAME], letter.headers["plan"]) == (7, b"x", b"pro")
    assert set(world.waiting()) == {8}
