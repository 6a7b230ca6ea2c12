import pytest

from enrich.dev import Stack


@pytest.fixture
def own_stack(tmp_path):
    """A broker that a test may kill."""
    stack = Stack(tmp_path / "stack")
    stack.up()
    yield stack
    stack.reset(yes=True)
