"""What readers are told: the state of all tables at one seq, in the store's header."""

import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from enrich.base.errors import EnrichError
from enrich.base.processes import Identity, identify, pid_namespace
from enrich.host.follow.keeper import Keeper
from enrich.host.ipc.header import Header, HeaderWriter, TableState
from stores.protocol import Clock
from stores.rocks import RocksStore

_EVERY_S, _SHARE, _RARELY_S = 0.1, 0.005, 1.0
"""Where nothing came: of a core, so that the state of many tables is written less often."""


class Telling:
    """For the agent's loop."""

    def __init__(
        self,
        store: RocksStore,
        keepers: Sequence[Keeper],
        header: HeaderWriter,
        clock: Clock,
        remarks: Callable[[], Mapping[str, str]],
    ) -> None:
        """`remarks`: what others have to say of tables that are well."""
        self._store = store
        self._keepers = keepers
        self._header = header
        self._clock = clock
        self._remarks = remarks
        self.told: Header | None = None
        """The last one."""
        self.has_news = False
        """Whether something came from the brokers that readers were not told."""
        self.touched: set[str] = set()
        """Tables whose state may have changed since: to make 200 of them takes longer than a publication."""
        self._states: dict[str, TableState] = {}
        """As readers were told last."""
        self._of_all: tuple[Mapping[str, str], EnrichError | None] | None = None
        """What the states have that is not their keepers'."""
        self._told_s = 0.0
        self._every_s = _EVERY_S
        self._self = identify(os.getpid()) or Identity(os.getpid(), 0)
        self._namespace = pid_namespace()

    def tell(self, write_failure: EnrichError | None) -> None:
        """At once what came from the brokers, and a moment later what else has changed. `write_failure`: why nothing
        that came can be written now."""
        now_s = time.monotonic()
        is_of_seq = self.told is not None and self.told.seq == self._store.seq
        if self.has_news or not is_of_seq or now_s - self._told_s >= self._every_s:
            self.has_news, self._told_s = False, now_s
            began_s = time.thread_time()
            self._write(write_failure)
            cost_s = time.thread_time() - began_s
            self._every_s = max(_EVERY_S, min(cost_s / _SHARE, _RARELY_S))

    def _write(self, write_failure: EnrichError | None) -> None:
        of_all = remarks, _ = self._remarks(), write_failure
        if of_all != self._of_all:
            self._of_all = of_all
            self.touched.update(keeper.name for keeper in self._keepers)
        while True:
            seq = self._store.seq
            for keeper in self._keepers:
                if keeper.name in self.touched:
                    self._states[keeper.name] = self._state_of(keeper, remarks.get(keeper.name), write_failure)
            # A load ends in a thread of its own: what is said must be of one seq.
            if self._store.seq == seq:
                break
        self.touched.clear()
        header = Header(
            *seq,
            heartbeat_ms=self._clock.now_ms(),
            pid=self._self.pid,
            started=self._self.started,
            pid_namespace=self._namespace,
            tables=dict(self._states),
        )
        self._header.write(header)
        self.told = header

    def _state_of(self, keeper: Keeper, remark: str | None, write_failure: EnrichError | None) -> TableState:
        quarantine = self._store.tables[keeper.name].quarantine
        state = keeper.state()
        if quarantine.records:
            state = replace(state, quarantined=quarantine.records)
        if state.reason is None and quarantine.not_kept:
            state = replace(state, reason=f"the quarantine is full: it keeps {quarantine.kept_records:,} records")
        if state.reason is None and remark is not None:
            state = replace(state, reason=remark)
        return state if write_failure is None else replace(state, reason=str(write_failure))
