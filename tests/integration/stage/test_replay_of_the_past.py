"""`replay: deterministic` with `as_of`: a repeated batch sees as far back as it did, whatever the host has now."""

import time

from tests.integration.stage.test_replay import NEVER_COMPACTED, made, run, take_back
from tests.support.stage.runs import LOOKUP


def test_a_repeated_batch_sees_as_far_back_as_it_did_though_the_table_has_a_longer_history_now(spark, world):
    world.users(history="1h", config=NEVER_COMPACTED)
    section = {"event_time": "ts", "lineage": True, "replay": "deterministic"}
    section["writeback"] = {"topic": world.topic("back"), "value": "struct(user_id)"}
    stage = world.stage("enrich", [{**LOOKUP, "as_of": True}], **section)
    # Earlier than half of the first history, later than half of the second one.
    ago = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() - 2_400))
    world.send(stage, [{"id": number, "user_id": "ann", "ts": ago} for number in range(5)])
    run(spark, world, stage, 5)
    once = made(world, stage)
    take_back(world, stage)
    world.document["tables"]["users"]["history"] = "8h"
    run(spark, world, stage, 10)
    statuses = [event["_lineage"]["user"]["status"] for event in world.output(stage)]
    assert statuses == ["expired"] * 10
    assert {record: 2 * copies for record, copies in once.items()} == dict(made(world, stage))
