"""Redis as a versioned store: rows under keys of a template, compared and set by a script, one batch per call."""

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import hiredis
import pyarrow as pa
import pyarrow.compute as pc
from redis import exceptions as redis_exceptions
from redis.crc import key_slot

from stores.errors import BadRecord, ConfigError, RefusedForNow, Retryable
from stores.external.protocol import NOTES, StoredRows, VersionedRows, Written
from stores.external.redis.clients import RedisAddress, connect, takes_anyone
from stores.external.redis.errors import redis_errors
from stores.external.redis.rows import HashRows, RedisRows, TextRows, releases_of, rows_read

# A script blocks Redis: 1,000 rows take it about 5 ms.
_ROWS_A_CALL = 1_000
_SCANNED = 1_000
_NOTES = NOTES.encode()

_SAVE_NOTE = """
local old = redis.call('GET', KEYS[1])
if (ARGV[2] == '' and not old) or old == ARGV[2] then redis.call('SET', KEYS[1], ARGV[1]) return 1 end
return 0
"""


@dataclass(frozen=True)
class RedisLocation:
    """The keys that hold the rows, and the rows' form."""

    key: str
    """A template that contains `{key}` once."""
    columns: Sequence[str]
    as_json: bool = False
    ttl_ms: int = 0
    marker_ms: int = 86_400_000
    """How long a deleted key is remembered."""


class RedisStore:
    """See `VersionedStore`. Connects at the first call."""

    def __init__(self, address: RedisAddress, location: RedisLocation) -> None:
        self._address = address
        self._location = location
        self._where = address.shown
        self._rows: RedisRows = TextRows() if location.as_json else HashRows(location.columns)
        before, _, after = location.key.partition("{key}")
        self._before, self._after = before.encode(), after.encode()
        self._pattern = _glob(self._before) + b"*" + _glob(self._after)
        shorter = min(len(self._before), len(_NOTES))
        self._may_meet_notes = self._before[:shorter] == _NOTES[:shorter]
        self._opened: Any = None
        self._loaded: dict[str, str] = {}

    def check(self) -> list[str]:
        try:
            with redis_errors(self._where):
                memory = self._info("memory")
                replication = self._info("replication")
        except BadRecord as error:  # no row is involved: the server refuses what the address says
            raise ConfigError(
                error.what, where=error.where, next_step="correct the url, and whether it names a cluster or a sentinel"
            ) from error
        # Without rows: detects missing rights at once.
        self._run(self._rows.script, [], self._rows.head(0, 0, released=False))
        warnings = []
        policy = str(memory.get("maxmemory_policy", "noeviction"))
        if policy != "noeviction":
            warnings.append(
                f"{self._where} may evict rows (maxmemory-policy {policy}): set it to noeviction, "
                "or rows and the marks of deleted ones can vanish"
            )
        if replication.get("role") == "slave":
            warnings.append(f"{self._where} is a replica: it takes no writes until it is promoted")
        else:
            self._note_times_to_live()
        if takes_anyone(self._address):
            warnings.append(
                f"{self._where} asks for no password: the one in the url is not checked, and anybody may write there"
            )
        return warnings

    def _note_times_to_live(self) -> None:
        """If the time to live was removed from the configuration, removes it once from rows that were written with it:
        they would still expire. A note beside the rows says that there may be such rows."""
        note = f"{NOTES}ttl:{self._location.key}"
        known = self.load_note(note)
        if self._location.ttl_ms and known is None:
            self.save_note(note, str(self._location.ttl_ms), None)
        elif not self._location.ttl_ms and known is not None:
            for keys in self._keys():
                for some in [[key] for key in keys] if self._address.cluster else [keys]:
                    self._run(self._rows.persist, some, [])
            with redis_errors(self._where):
                self._client.delete(note)

    def incarnation(self) -> str:
        # A server that has copied another's rows over its own is the same process: only its replication id changes.
        with redis_errors(self._where):
            process, history = self._info("server").get("run_id"), self._info("replication").get("master_replid")
        return f"{process}/{history}"

    def write(
        self, rows: VersionedRows, seen: pa.Int64Array | None = None, seen_releases: pa.Int64Array | None = None
    ) -> Written:
        before = [None] * len(rows) if seen is None else seen.to_pylist()
        keys = [self._before + key + self._after for key in rows.keys.to_pylist()]
        notes = [index for index, key in enumerate(keys) if key.startswith(_NOTES)] if self._may_meet_notes else []
        if notes:
            return self._write_but(notes, rows, seen, seen_releases)
        releases = releases_of(rows, seen_releases)
        arguments = self._rows.arguments(rows, before, releases)
        head = self._rows.head(self._location.ttl_ms, self._location.marker_ms, released=releases is not None)
        applied, refused = 0, {}
        calls = list(self._calls(keys, rows))
        given = (
            ([keys[index] for index in call], [*head, *(part for index in call for part in arguments[index])])
            for call in calls
        )
        for call, answer in zip(calls, self._run_all(self._rows.script, given), strict=True):
            applied += int(answer[0])
            for index, reason in zip(answer[1::2], answer[2::2], strict=True):
                refused[call[index]] = self._refusal(bytes(reason).decode("utf-8", "replace"))
        return Written(applied, refused)

    def _write_but(self, notes: list[int], rows: VersionedRows, *seen: pa.Int64Array | None) -> Written:
        """Writes all rows except those whose keys are reserved for notes."""
        kept = sorted({*range(len(rows))} - {*notes})
        places = pa.array(kept, pa.int64())
        some = self.write(rows.take(kept), *(None if each is None else each.take(places) for each in seen))
        refused = {kept[index]: error for index, error in some.refused.items()}
        return Written(some.applied, refused | dict.fromkeys(notes, self._no_key()))

    def _no_key(self) -> BadRecord:
        return BadRecord(f"its key in Redis would begin with {NOTES}, where the service keeps its notes")

    def _refusal(self, reason: str) -> BadRecord:
        return RefusedForNow(
            f"Redis: {reason}", where=self._where, next_step="another program uses this key: remove it"
        )

    def scan(self) -> Iterator[StoredRows]:
        for keys in self._keys():
            yield self._read(keys, living=True)

    def _keys(self) -> Iterator[list[bytes]]:
        """The keys of all rows and marks, in batches."""
        keys: list[bytes] = []
        with redis_errors(self._where):
            for key in self._client.scan_iter(match=self._pattern, count=_SCANNED, _type=self._rows.kind):
                if self._may_meet_notes and key.startswith(_NOTES):
                    continue
                keys.append(bytes(key))
                if len(keys) == _SCANNED:
                    yield keys
                    keys = []
        if keys:
            yield keys

    def is_empty(self) -> bool:
        with redis_errors(self._where):
            found = self._client.scan_iter(match=self._pattern, count=_SCANNED, _type=self._rows.kind)
            return not any(not key.startswith(_NOTES) for key in found)

    def fetch(self, keys: Sequence[bytes]) -> StoredRows:
        return self._read([self._before + key + self._after for key in keys], living=False)

    def spelled_keys(self, keys: Sequence[bytes]) -> list[bytes]:
        if self._may_meet_notes and any((self._before + key + self._after).startswith(_NOTES) for key in keys):
            raise self._no_key()
        return list(keys)

    def spelled(self, values: pa.StructArray) -> list[tuple[bytes | None, ...] | None]:
        return self._rows.spelled(values)

    def load_note(self, name: str) -> str | None:
        with redis_errors(self._where):
            note = self._client.get(name)
        return None if note is None else note.decode()

    def save_note(self, name: str, note: str, replacing: str | None) -> bool:
        return bool(self._run(_SAVE_NOTE, [name.encode()], [note, replacing or ""]))

    def close(self) -> None:
        if self._opened is not None:
            self._opened.close()
            self._opened = None

    @property
    def _client(self) -> Any:
        if self._opened is None:
            with redis_errors(self._where):
                try:
                    self._opened = connect(self._address)
                except ValueError as error:
                    raise ConfigError(f"not an address of Redis: {error}", next_step="correct the url") from None
        return self._opened

    def _info(self, section: str) -> Mapping[str, Any]:
        info = self._client.info(section)
        if self._address.cluster and not any(isinstance(value, str) for value in info.values()):
            nodes = sorted(info.items())  # one answer per node
            return {key: ",".join(str(one.get(key, "")) for _, one in nodes) for key in nodes[0][1]}
        return dict(info)

    def _calls(self, keys: Sequence[bytes], rows: VersionedRows) -> Iterator[list[int]]:
        """The indexes of the rows of each call. In a cluster a script may only use keys of one slot."""
        if not self._address.cluster:
            # Living rows first: if memory is full, the script then fails before it has written anything.
            living = rows.values.is_valid()
            order = pc.sort_indices(pc.invert(living)).to_pylist() if rows.values.null_count else range(len(keys))
            for start in range(0, len(keys), _ROWS_A_CALL):
                yield list(order[start : start + _ROWS_A_CALL])
            return
        slots: dict[int, list[int]] = defaultdict(list)
        for index, key in enumerate(keys):
            slots[key_slot(key)].append(index)
        yield from slots.values()

    def _run_all(self, script: str, calls: Iterable[tuple[list[bytes], list[Any]]]) -> list[Any]:
        """Packs and sends the next call while Redis works on the last one: a third less time for a batch."""
        if self._address.cluster:
            return [self._run(script, keys, arguments) for keys, arguments in calls]
        with self._script_errors():
            if script not in self._loaded:
                self._loaded[script] = _sha(self._client.script_load(script))
            pool = self._client.connection_pool
            connection = pool.get_connection()
            answers: list[Any] = []
            waiting = 0
            try:
                for keys, arguments in calls:
                    command = ("EVALSHA", self._loaded[script], len(keys), *keys, *arguments)
                    # hiredis directly: the client's own method checks the type of every argument again.
                    connection.send_packed_command([hiredis.pack_command(command)])
                    waiting += 1
                    if waiting == 2:
                        answers.append(connection.read_response())
                        waiting = 1
                if waiting:
                    answers.append(connection.read_response())
            except BaseException as error:
                connection.disconnect()  # an answer may still be on its way
                if isinstance(error, redis_exceptions.NoScriptError):
                    del self._loaded[script]  # the server was restarted; the caller tries again
                raise
            finally:
                pool.release(connection)
        return answers

    @contextmanager
    def _script_errors(self) -> Iterator[None]:
        """The scripts themselves report wrong rows. An error of a whole script is never the fault of a row: as a
        BadRecord it would send good rows to the dead letters."""
        try:
            with redis_errors(self._where):
                yield
        except BadRecord as error:
            raise Retryable(error.what, where=error.where, next_step="see the log of Redis") from error

    def _run(self, script: str, keys: list[bytes], arguments: list[Any]) -> Any:
        with self._script_errors():
            if script not in self._loaded:
                self._loaded[script] = _sha(self._client.script_load(script))
            try:
                return self._client.evalsha(self._loaded[script], len(keys), *keys, *arguments)
            except redis_exceptions.NoScriptError:  # the server was restarted
                self._loaded[script] = _sha(self._client.script_load(script))
                return self._client.evalsha(self._loaded[script], len(keys), *keys, *arguments)

    def _read(self, stored: Sequence[bytes], *, living: bool) -> StoredRows:
        with redis_errors(self._where):
            pipeline = self._client.pipeline(transaction=False)
            for key in stored:
                pipeline.execute_command(self._rows.read_command, key)
            answers = pipeline.execute(raise_on_error=False)
        # A key of another type is not ours: its row counts as missing.
        answers = [None if isinstance(answer, redis_exceptions.ResponseError) else answer for answer in answers]
        keys = [key[len(self._before) : len(key) - len(self._after)] for key in stored]
        return rows_read(keys, answers, self._rows, living=living)


def _sha(answer: str | bytes) -> str:
    return answer.decode() if isinstance(answer, bytes) else answer


def _glob(text: bytes) -> bytes:
    return re.sub(rb"([*?\[\]\\])", rb"\\\1", text)
