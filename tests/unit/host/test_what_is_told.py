"""Which keys of a table on demand the agent is told."""

import numpy as np
import pyarrow as pa

from enrich.host.on_demand.wire import LONGEST_KEY
from enrich.host.reader.views import distinct


def test_keys_that_no_source_is_asked_for_are_not_told_and_fill_no_memory() -> None:
    """Events may have any text as a key, and the agent remembers of each that it has no row."""
    longest = "k" * LONGEST_KEY
    keys = pa.array(["ann", longest, longest + "k", None, "ann", "bob"])
    chosen = np.array([True, True, True, False, True, False])
    assert distinct(keys, chosen) == [b"ann", longest.encode()]
