"""The section `observe`."""

import re
from datetime import timedelta
from decimal import Decimal
from typing import Annotated

from pydantic import BeforeValidator, Field, PlainSerializer, WithJsonSchema

from enrich.config.messages.words import Wrong, shown
from enrich.config.types.fields import Between, Flag, HttpUrl, ListenAddress, Secret, Section, SigningSecrets
from enrich.config.types.quantities import Duration

_PERCENT = r"^[0-9]{1,3}(\.[0-9]{1,6})?%$"


def _as_share(value: object) -> float:
    if isinstance(value, float) and not isinstance(value, bool):
        return value
    if isinstance(value, str) and re.fullmatch(_PERCENT, value, re.ASCII) and Decimal(value[:-1]) <= 100:
        return float(Decimal(value[:-1]) / 100)
    raise Wrong(f"expected a share such as 1% or 0.1%, got {shown(value)}")


def share_text(share: float) -> str:
    return f"{(Decimal(str(share)) * 100).normalize():f}%"


Share = Annotated[
    float,
    BeforeValidator(_as_share),
    PlainSerializer(share_text),
    WithJsonSchema({"type": "string", "pattern": _PERCENT}),
]


class Sla(Section):
    """What the pipeline promises. A minute in which it is not kept is down."""

    p95: Duration = timedelta(seconds=1)
    """95 % of the events of a minute are delivered within this, from their event time. Those that are not delivered
    count as infinitely late."""
    nines: Annotated[int, Between(1, 5)] = 3
    """How many nines a day should have: with 3, one minute of a day may be down."""


class Loss(Section):
    """When what is missing is lost."""

    alarm: Share = 0.01
    """Share of a minute's events that are lost, above which there is an alarm."""
    settle: Duration = timedelta(minutes=3)
    """How long after its end a minute's events are waited for; what comes later is late. 10s to 1h."""
    keep: Duration = timedelta(days=30)
    """How long verdicts are kept."""


class Headroom(Section):
    """How much more than today the pipeline should be able to take."""

    m: Annotated[int, Between(1, 1000)] = 10
    """The rating should be so many times the peak of the traffic."""
    peak_over: Duration = timedelta(days=7)
    """The time whose busiest minute is the peak."""


class Alarms(Section):
    """Where alarms are sent, beside the log."""

    webhook: HttpUrl | None = None
    """Address that each alarm is posted to, as a JSON object."""
    secret: SigningSecrets | None = None
    """Signs these requests with Standard Webhooks headers: a secret such as `whsec_...`, or a list."""
    allow_private: Flag = False
    """Whether the address may be a private, local or link-local one."""


class Observe(Section):
    """What the observer promises, when it raises an alarm, and where its page is."""

    listen: ListenAddress = "127.0.0.1:9500"
    """Address of its page and API."""
    token: Secret | None = None
    """Who asks must have it: as `Authorization: Bearer TOKEN`, or as the password in a browser. Needed unless the
    address is a local one."""
    sla: Sla = Field(default_factory=Sla)
    """What the pipeline promises."""
    loss: Loss = Field(default_factory=Loss)
    """When what is missing is lost."""
    rating: Headroom = Field(default_factory=Headroom)
    """How much more than today the pipeline should be able to take."""
    alarms: Alarms = Field(default_factory=Alarms)
    """Where alarms are sent."""
