"""Which event Spark cannot read the time of, by what it says. That it says so is shown with a broker."""

from enrich.base.errors import BadRecord
from enrich.stage.progress.absurd_times import absurd_time

SAID = (
    "Job aborted: ... KafkaIllegalStateException: Record at topic shop.in partition 1 offset 2 has "
    "timestamp value {} that overflows when converting to Spark's microsecond-precision TimestampType.\n\tat org.apache"
)


def test_the_event_that_spark_names_is_named_with_what_to_do():
    for time_ms in (10**17, -(2**63)):
        found = absurd_time(SAID.format(time_ms))
        assert isinstance(found, BadRecord)
        assert found.where == "topic shop.in, partition 1, offset 2"
        assert f"{time_ms} ms" in found.what
        assert "realtime" in (found.next_step or "")


def test_other_messages_are_not_taken_for_it():
    assert absurd_time("Job aborted: java.lang.ArithmeticException: long overflow\n\tat java.base/") is None
