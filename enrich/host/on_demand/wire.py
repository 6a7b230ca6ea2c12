"""What a reader and the agent say to each other of keys. Bytes: keys need not be text."""

from collections.abc import Sequence

import msgspec

from stores.table import Seq

LONGEST_KEY = 1_000
"""Bytes. Addresses have limits, and keys come from events: nobody is asked for longer ones. They are not told, either,
and take no memory."""


class Waiting(msgspec.Struct, frozen=True):
    keys: Sequence[bytes]
    patience_s: float


_keys = msgspec.msgpack.Decoder(list[bytes])
_waiting = msgspec.msgpack.Decoder(Waiting)
_seq = msgspec.msgpack.Decoder(tuple[str, int, int])


def keys_sent(keys: Sequence[bytes]) -> bytes:
    return msgspec.msgpack.encode(keys)


def keys_in(body: bytes) -> Sequence[bytes]:
    return _keys.decode(body)


def waiting_sent(keys: Sequence[bytes], patience_s: float) -> bytes:
    return msgspec.msgpack.encode(Waiting(keys, patience_s))


def waiting_in(body: bytes) -> Waiting:
    return _waiting.decode(body)


def seq_sent(seq: Seq) -> bytes:
    return msgspec.msgpack.encode(tuple(seq))


def seq_in(body: bytes) -> Seq:
    return Seq(*_seq.decode(body))
