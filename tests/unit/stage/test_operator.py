"""Steps that a worker takes together, over the batches of a task."""

from dataclasses import dataclass

import pyarrow as pa
import pytest

from enrich.stage.steps.step import Operator

EVENTS = pa.array(range(20))


@dataclass
class Doubles:
    """Of at most so many events."""

    most: int
    error: Exception
    needs = ("event",)
    makes = {"twice": pa.int64()}  # noqa: RUF012 - as the interface has it

    def begin(self, _):
        def take(columns):
            events = columns["event"].to_pylist()
            if len(events) > self.most:
                raise self.error
            return {"twice": pa.array([2 * event for event in events])}

        return take


@pytest.mark.parametrize(
    "error", [pa.ArrowInvalid("a column overflows"), pa.ArrowCapacityError("the same"), MemoryError()]
)
def test_a_batch_that_becomes_too_much_is_taken_in_parts(error):
    operator = Operator.of([Doubles(4, error)], ["twice"])
    made = list(operator.run(iter([(EVENTS,), (EVENTS[:3],)]), None))
    assert pa.chunked_array(made).to_pylist() == [{"twice": 2 * event} for event in [*range(20), *range(3)]]
    assert max(map(len, made)) <= 4


def test_an_event_that_alone_is_too_much_fails_and_so_does_any_other_error():
    for step in Doubles(0, pa.ArrowInvalid("a column overflows")), Doubles(4, ValueError("a bug")):
        with pytest.raises(type(step.error)):
            list(Operator.of([step], ["twice"]).run(iter([(EVENTS,)]), None))
