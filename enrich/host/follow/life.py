"""The life of a table that has a topic, as a table of states. docs/architecture.md shows the same table."""

from collections.abc import Mapping
from enum import StrEnum

from enrich.base.machine import Machine


class Phase(StrEnum):
    WAITING = "waiting"
    """For the brokers to say what the topic is now."""
    LOADING = "loading"
    """Another process reads the whole topic, or a snapshot; the old rows answer meanwhile."""
    FOLLOWING = "following"
    """New records become rows as they come."""
    DECODING = "decoding"
    """What came waits for its decoder, and so for a registry. The topic is not read on."""
    SET_ASIDE = "set aside"
    """Something failed. It is tried again after a pause; the other tables go on."""


class Happening(StrEnum):
    CAN_FOLLOW = "the rows fit the topic"
    MUST_LOAD = "the rows do not fit the topic, or a snapshot is to be taken in"
    LOADED = "the load is complete"
    LOAD_ENDED = "the load ended without new rows"
    LEFT = "the topic cannot be followed from here, or a person asked for a load"
    NOT_DECODED = "a record cannot be decoded yet"
    DECODED = "what came is decoded"
    DROPPED = "what came is not wanted any more"
    FAILED = "something failed"
    PAUSE_OVER = "the pause is over"
    PAUSE_OVER_UNDECODED = "the pause is over, and what came is not decoded"


NEXT: Mapping[tuple[Phase, Happening], Phase] = {
    (Phase.WAITING, Happening.CAN_FOLLOW): Phase.FOLLOWING,
    (Phase.WAITING, Happening.MUST_LOAD): Phase.LOADING,
    (Phase.WAITING, Happening.FAILED): Phase.SET_ASIDE,
    (Phase.LOADING, Happening.LOADED): Phase.FOLLOWING,
    (Phase.LOADING, Happening.LOAD_ENDED): Phase.WAITING,
    (Phase.LOADING, Happening.FAILED): Phase.SET_ASIDE,
    (Phase.FOLLOWING, Happening.LEFT): Phase.WAITING,
    (Phase.FOLLOWING, Happening.NOT_DECODED): Phase.DECODING,
    (Phase.FOLLOWING, Happening.FAILED): Phase.SET_ASIDE,
    (Phase.DECODING, Happening.DECODED): Phase.WAITING,
    (Phase.DECODING, Happening.DROPPED): Phase.WAITING,
    (Phase.DECODING, Happening.FAILED): Phase.SET_ASIDE,
    (Phase.SET_ASIDE, Happening.FAILED): Phase.SET_ASIDE,
    (Phase.SET_ASIDE, Happening.PAUSE_OVER): Phase.WAITING,
    (Phase.SET_ASIDE, Happening.PAUSE_OVER_UNDECODED): Phase.DECODING,
}


def new_life() -> Machine[Phase, Happening]:
    return Machine(NEXT, Phase.WAITING)
