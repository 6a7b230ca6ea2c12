"""A plain consumer of some topics: how old each record is when it arrives, in milliseconds."""

import json
import re
import sys
import time

from confluent_kafka import Consumer, TopicPartition

_AT = re.compile(rb'"at": ([1-9][0-9]+)')


def main(servers: str, seconds: float, names: list[str]) -> None:
    own = {"group.id": "plain", "enable.auto.commit": False, "fetch.wait.max.ms": 100}
    consumer = Consumer({"bootstrap.servers": servers, **own})
    consumer.assign([TopicPartition(name, 0, 0) for name in names])
    consumer.poll(1.0)
    sys.stdout.write("reads\n")
    sys.stdout.flush()
    times, end = [], time.monotonic() + seconds
    while time.monotonic() < end:
        message = consumer.poll(0.1)
        if message is not None and message.error() is None:
            times += [(time.time_ns() // 1000 - int(at)) / 1000 for at in _AT.findall(message.value() or b"")]
    consumer.close()
    sys.stdout.write(json.dumps(times))


if __name__ == "__main__":
    main(sys.argv[1], float(sys.argv[2]), sys.argv[3:])
