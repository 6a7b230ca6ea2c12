from enrich.base import errors as upper
from stores import errors as lower
from stores.errors import EnrichError, Retryable, Unreachable


def test_an_error_tells_what_where_and_what_next():
    error = Unreachable("no answer", where="localhost:9092", next_step="start the broker")
    assert str(error) == "no answer (localhost:9092); start the broker"
    assert str(EnrichError("alone")) == "alone"
    assert isinstance(error, Retryable)


def test_the_rooms_above_name_the_whole_tree():
    tree = {name for name, value in vars(lower).items() if isinstance(value, type) and issubclass(value, EnrichError)}
    assert tree == set(upper.__all__)
    assert all(getattr(upper, name) is getattr(lower, name) for name in tree)
