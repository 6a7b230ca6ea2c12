"""What a route that empties old retry topics says of itself."""

import threading
from types import SimpleNamespace
from typing import Any, cast

import pytest

from enrich.base.errors import ConfigError
from sync_service.writeback.old_tiers import OldTiersRoute


def test_what_brokers_refuse_for_a_moment_is_no_reason_to_stop_a_service_that_has_worked() -> None:
    """See `Service`: it stops for a ConfigError of a route that has never made progress."""

    def refused() -> None:
        raise ConfigError("the brokers refuse this user")

    route = OldTiersRoute(cast(Any, SimpleNamespace(name="cache")), cast(Any, SimpleNamespace(topics=refused)))
    assert route.status().last_progress_ms is None
    with pytest.raises(ConfigError):
        route.run(threading.Event())
    assert route.status().last_progress_ms is not None
