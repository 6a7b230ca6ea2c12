"""From what nodes say to verdicts: which lots are due, whether all is said of them, and what has changed.

It waits for nobody and has no clock: it is given reports, the ends of topics and the time.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import reduce

from enrich.tally import MergedTally, Node, NodeKind, Origins, Report, minute_of
from enrich.tally.origins import Place, joined
from enrich.verdict.minute import FATES, MinuteVerdict, State, decoded, encoded
from enrich.verdict.ways import Way, node_name
from observe_service.verdicts.books import Books, above, report_without, within, without
from observe_service.verdicts.gone import Gone, GoneLate
from observe_service.verdicts.judging import AtHop, judged
from observe_service.verdicts.lots import MINUTE_MS, Lot, LotKey, Lots
from observe_service.verdicts.reached import Ends, Reached, Torn, up_to_unread
from observe_service.verdicts.standing import Sla, Standing, Times

_SILENCE_MS = 30_000
"""A node says something every 10 s."""
KEPT_MINUTES = 2_880
"""For so long the topic of tallies keeps what nodes say."""
_MOST_FOLLOWED = 256 * 2**20
"""Bytes, about. Three ways for two days take 25 MiB, and what their names take."""
_MARGIN_MS = 240_000
"""Beside the first word of what is open: nodes say it at different times."""


@dataclass
class _Progress:
    """Of a lot on one way."""

    sure_ms: dict[int, int] = field(default_factory=dict)
    """By hop: when it was seen that the node has said all it can say of the lot."""
    gone: dict[int, int] = field(default_factory=dict)
    """By hop: how many of the lot had gone on by then."""
    is_done: bool = False


@dataclass(frozen=True)
class Checkpoint:
    """Where another observer goes on."""

    from_ms: int
    """Tallies from then on are needed."""
    minute: int
    """Up to this one there are verdicts, open ones among them."""
    placed: Mapping[Node | None, tuple[Mapping[Place, int], Origins]] = field(default_factory=dict)
    """Of each entry floors of places, below which all is in verdicts, and what else is. None: of all entries."""
    ids: Mapping[str, str] = field(default_factory=dict)
    """Of the topics: one that is made again has another."""
    made_ms: Mapping[str, int] = field(default_factory=dict)
    """When that was seen, of those that were made again. What was said of them before is said of others."""
    bases: Mapping[Node, Mapping[Place, int]] = field(default_factory=dict)
    """Of each node up to where it had read. The times of records do not say it: they are of the writers' clocks."""


class Observation:
    def __init__(self, ways: Sequence[Way], settle_ms: int, sla: Sla) -> None:
        self.ways = ways
        self._sla = sla
        self._by_entry: dict[Node, list[Way]] = {}
        self._entry_topics: dict[Node, Sequence[str] | None] = {}
        for way in ways:
            self._by_entry.setdefault(way.hops[0].node, []).append(way)
            self._entry_topics[way.hops[0].node] = way.topics
        self._nodes_behind = {
            entry: {hop.node for way in own for hop in way.hops} for entry, own in self._by_entry.items()
        }
        self._ways_over = {
            node: [way for way in ways if any(hop.node == node for hop in way.hops)] for node in self.nodes
        }
        self._mentioned_by = _followers(ways)
        self.books, self.reached, self.lots = Books(), Reached(), Lots(settle_ms)
        self._progress: dict[tuple[LotKey, str], _Progress] = {}
        self._judged: dict[tuple[str, int], set[int | None]] = {}
        """By way and minute: the lots that an observer before this one has judged."""
        self._standing: dict[tuple[str, int], Standing] = {}
        self._records: dict[tuple[str, int], bytes] = {}
        """As they were written last. Two days of them as objects would take several times as much."""
        self._ids: dict[str, str] = {}
        """Of the topics."""
        self._made_ms: dict[str, int] = {}
        self._ends: dict[Place, int] = {}
        """As they were seen last."""
        self.empty: dict[Node, Origins] = {}
        """Where there are no records, beyond those that the node has come to. As if it had read there, it would seem
        to have passed by the records before."""
        self._times: dict[tuple[Node, int], Times] = {}
        """What verdicts of an observer before this one say; what came later is in the books. Read from their records
        when somebody asks: two days of them would take 50 MB for each way."""
        self._restored: dict[tuple[str, int], int] = {}
        """The ways and minutes of these records, and up to when lags are in them."""
        self._gone = Gone()
        self._heard_ms = 0
        """The newest report is of this time."""
        self._next_minute: int | None = None
        self._follows = True
        """Whether there is anything of which something may still become."""
        self._said = Origins()
        """Of what something was said since the last tick, if it follows anything."""
        self._touched: set[tuple[str, int]] = set()
        self.begun_ms = 0
        """Nothing is judged before all is read that was said up to then. Where another observer was, nodes are known to
        have read what they are yet to be heard of."""
        self.given_up: int | None = None
        """The newest minute that is not followed any more, since there were too many names to keep."""
        self._over: dict[Node, list[Origins]] = {}
        """By entry: what no way has to know of any more, but those that have yet to judge it, or follow it."""

    @property
    def nodes(self) -> Sequence[Node]:
        return [*dict.fromkeys(hop.node for way in self.ways for hop in way.hops)]

    # What it is given.

    def begin(self, minute: int) -> None:
        """The first minute that has a verdict."""
        self._next_minute = self.lots.first_minute = minute

    def resume(self, checkpoint: Checkpoint, oldest: int) -> None:
        """`oldest`: what was said of minutes before it may be deleted. Nobody has watched them."""
        for entry, (floors, origins) in checkpoint.placed.items():
            for node in self._by_entry if entry is None else [entry]:
                self.lots.restore(node, floors, origins)
        self._ids, self._made_ms = {**checkpoint.ids}, {**checkpoint.made_ms}
        for node, bases in checkpoint.bases.items():
            self.reached.begin(node, bases)
        if checkpoint.minute + 1 < oldest:
            self.begin(oldest)
        else:
            self._next_minute = self.lots.next_minute = checkpoint.minute + 1
            self.lots.first_minute = oldest  # their records are not read: what comes late would replace them

    def restore(self, verdict: MinuteVerdict) -> None:
        """What an observer has written before."""
        way = next((way for way in self.ways if way.name == verdict.route), None)
        if way is None or len(way.hops) != len(verdict.hops):
            return  # the pipeline is another one now
        key = way.name, verdict.minute
        self._records[key] = _record(verdict)
        if verdict.lots:
            self._restored[key] = verdict.until_ms
        entry = way.hops[0].node
        self._judged.setdefault(key, set()).update(verdict.lots)
        # A lot is done once all of its ways have judged it.
        by_way = [self._judged.get((each.name, verdict.minute), set()) for each in self._by_entry[entry]]
        self.lots.judged[entry, verdict.minute] = set.intersection(*by_way)
        if any(verdict.total(fate) for fate in FATES):
            self._standing[key] = Standing.of(verdict, way, self.books)

    def take(self, report: Report, at_ms: int) -> None:
        """`at_ms`: when the brokers had it."""
        if report.node not in self._ways_over:
            return  # nothing would ever be judged by it, and so nothing be forgotten
        if others := [topic for topic, made_ms in self._made_ms.items() if at_ms <= made_ms]:
            report = report_without(report, others)
        self._heard_ms = max(self._heard_ms, at_ms)
        if self._follows:
            self._gone.heard(report, self.books)
            self._said = reduce(Origins.__or__, (tally.known for tally in report.tallies), self._said)
        first = self._first_times(report)
        self.books.take(report, at_ms, self._lags_until, first)
        for minute in first:
            for way in self._ways_over[report.node]:
                if (way.name, minute) in self._records:
                    self._stand(way, minute)
                    self._touched.add((way.name, minute))
        followed = self._mentioned_by.get(report.node, ())
        is_entry = report.node in self._by_entry
        for tally in report.tallies if is_entry or followed else ():
            if tally.route:
                continue
            known = tally.known
            if is_entry:
                self.lots.told(report.node, tally.minute, within(known, self._entry_topics[report.node]), at_ms)
            for entry, topic in followed:
                self.lots.mentioned(entry, tally.minute, within(known, [topic]), at_ms)

    def look(self, at_ms: int, ends: Ends, topics_of: Mapping[Node | None, Sequence[str]]) -> None:
        self._ends |= ends
        for node in self.nodes:
            if own := topics_of.get(node):
                self.reached.look(node, own, at_ms, ends)

    def identify(self, ids: Mapping[str, str], at_ms: int = 0) -> Sequence[str]:
        """Forgets what was known of topics that have been made again: their offsets are other events now. Returns
        them. `at_ms`: when they had these ids."""
        found = [topic for topic, topic_id in ids.items() if self._ids.get(topic, topic_id) != topic_id]
        for topic in found:
            self._let_go(topic)
            if self._ends:  # else it may have been made again long ago, while nobody watched
                self._made_ms[topic] = at_ms
            self._ends = {place: end for place, end in self._ends.items() if place[0] != topic}
            self.reached.forget_topic(topic)
            self.lots.forget_topic(topic)
            self.books.forget_topic(topic)
            self.empty = {node: without(some, topic) for node, some in self.empty.items()}
        self._ids |= ids
        return found

    def _let_go(self, topic: str) -> None:
        """No verdict names events of it any more, or another observer would take the new ones for those."""
        name, ways = f'"{topic}/'.encode(), {way.name: way for way in self.ways}
        for key in [key for key, record in self._records.items() if key in self._standing or name in record]:
            if self._stand(ways[key[0]], key[1]).let_go(topic, self.books):
                self._touched.add(key)

    def nothing_there(self, node: Node, offsets: Origins) -> None:
        """Where the node's topics have no records: nobody can read them."""
        self.empty[node] = self.empty.get(node, Origins()) | offsets

    def not_answering(self, entry: Node, minute: int) -> None:
        """The node did not answer all this minute long."""
        for way in self._by_entry.get(entry, ()):
            self._stand(way, minute).unanswered = node_name(way.hops[0].node)
            self._touched.add((way.name, minute))

    # What follows.

    def tick(self, log_ms: int, now_ms: int) -> Sequence[MinuteVerdict]:
        """Verdicts that are new or have changed. `log_ms`: up to then all that nodes have said was given."""
        until = self._until(now_ms)
        self.lots.known_ms = log_ms
        self._begin_minutes(log_ms)
        touched, self._touched = self._touched, set()
        oldest = minute_of(log_ms) - KEPT_MINUTES
        is_known = log_ms >= self.begun_ms
        # Of this very millisecond more may come.
        due = [lot for lot in self.lots.open.values() if is_known and lot.due_ms < log_ms]
        for lot in sorted(due, key=lambda lot: lot.key.late is not None):  # what came late waits for the others
            # What was said of it is deleted by now. Nobody can say more that another observer would hear.
            touched |= self._judge(lot, until, now_ms, is_over=lot.key.minute < oldest)
        touched |= self._follow()
        verdicts = [verdict for key in touched if (verdict := self._written(key, log_ms)) is not None]
        self._forget(log_ms)
        self._forget_over()
        self._follows = any(standing.remaining for standing in self._standing.values())
        return verdicts

    def now(self, now_ms: int) -> Sequence[MinuteVerdict]:
        """Of the minutes that are not due yet, as far as it is known."""
        found = []
        for lot in self.lots.open.values():
            if lot.key.late is None and lot.due_ms > now_ms:
                for way in self._by_entry[lot.key.entry]:
                    standing = Standing.new(way, lot.key.minute)
                    standing.reason = "events of this minute may still come"
                    at = judged(way, lot.origins, self.books)
                    found.append(standing.verdict(self.books, self._sla, self._times_of, at))
        return found

    def held_up(self) -> Mapping[str, tuple[int, str]]:
        """Of each way the oldest minute that is due and cannot be judged yet, and why."""
        found: dict[str, tuple[int, str]] = {}
        for lot in self.lots.open.values():
            for way in self._by_entry[lot.key.entry] if lot.key.late is None else ():
                progress = self._progress.get((lot.key, way.name))  # there is none before it is due
                standing = self._standing.get((way.name, lot.key.minute))
                if progress is None or progress.is_done or standing is None or standing.reason is None:
                    continue
                if way.name not in found or lot.key.minute < found[way.name][0]:
                    found[way.name] = lot.key.minute, standing.reason
        return found

    def record(self, route: str, minute: int) -> bytes | None:
        """The newest verdict that was written, of the last two days."""
        return self._records.get((route, minute))

    def checkpoint(self, log_ms: int) -> Checkpoint:
        from_ms = min(self.lots.from_ms(log_ms), log_ms) - _MARGIN_MS
        minute = (self._next_minute or minute_of(log_ms)) - 1
        is_open = [lot.key.minute for lot in self.lots.open.values() if lot.key.late is None]
        if self._ends:
            self.lots.raise_floors(log_ms, self._ends | self._read_of_entries())
        followed = joined(standing.remaining for standing in self._standing.values())
        self.books.forget_below(self._floors_of, followed)
        oldest = min([minute, *(each - 1 for each in is_open)])
        bases = {node: {**known} for node in self.nodes if (known := self.reached.bases(node))}
        return Checkpoint(from_ms, oldest, self.lots.checkpoint(), {**self._ids}, {**self._made_ms}, bases)

    def _read_of_entries(self) -> dict[Place, int]:
        """Of the topics that ingest writes: up to where all nodes behind it have read. What lies beyond they may still
        tell of, however long they are stopped."""
        found: dict[Place, int] = {}
        for node, followed in self._mentioned_by.items():
            topics, read = {topic for _, topic in followed}, self.reached.bases(node)
            for place, end in self._ends.items():
                if place[0] in topics:
                    found[place] = min(found.get(place, end), read.get(place, 0))
        return found

    def _floors_of(self, node: Node) -> Mapping[Place, int]:
        """For all whose events come to the node."""
        found: dict[Place, int] = {}
        for entry, nodes in self._nodes_behind.items():
            if node in nodes and entry in self.lots.placed:
                for place, floor in self.lots.placed[entry].floors.items():
                    found[place] = min(floor, found.get(place, floor))
        return found

    # Steps of a tick.

    def _until(self, now_ms: int) -> Mapping[Node, int]:
        found: dict[Node, int] = {}
        for node in self.nodes:
            bases = self.reached.bases(node)
            if empty := self.empty.pop(node, None):
                come_to = up_to_unread(empty, self.books.reads.get(node, Origins()), bases)
                self.books.reads[node] = self.books.reads.get(node, Origins()) | come_to
                self.empty[node] = above(empty - come_to, bases)
            found[node] = self.reached.until_ms(node, self.books.reads.get(node, Origins()), now_ms)
            self.books.forget_reads(node, self.reached.bases(node))
        return found

    def _begin_minutes(self, log_ms: int) -> None:
        first = self._next_minute
        if first is None:
            return
        for minute in range(first, minute_of(log_ms) + 1):
            for entry in self._by_entry:
                self.lots.minute_begins(entry, minute)
        self._next_minute = max(first, minute_of(log_ms) + 1)

    def _judge(self, lot: Lot, until: Mapping[Node, int], now_ms: int, *, is_over: bool) -> set[tuple[str, int]]:
        entry = lot.key.entry
        untold = self.lots.settle(lot)
        if untold:  # for all that follows the entry has said them
            self.books.sets.setdefault((entry, ""), MergedTally()).went |= untold
        if lot.key.late is not None and not lot.origins:
            self.lots.drop(lot)
            return set()
        touched: set[tuple[str, int]] = set()
        for way in self._by_entry[entry]:
            progress = self._progress.setdefault((lot.key, way.name), _Progress())
            if progress.is_done or lot.key.late in self._judged.get((way.name, lot.key.minute), ()):
                progress.is_done = True
                continue
            touched |= self._judge_way(lot, way, progress, until, now_ms, is_over=is_over)
        if all(self._progress[lot.key, way.name].is_done for way in self._by_entry[entry]):
            self._close(lot)
        return touched

    def _judge_way(
        self, lot: Lot, way: Way, progress: _Progress, until: Mapping[Node, int], now_ms: int, *, is_over: bool
    ) -> set[tuple[str, int]]:
        """`is_over`: it is not waited for any longer. What a node has not said by now is unknown.

        Events that came late wait for those that came in time: a record with lots says that all its counts are final,
        and has those of what is open, too.
        """
        standing = self._stand(way, lot.key.minute)
        if lot.key.late is not None and None not in standing.lots:
            # Without one the way was not there in that minute: it was judged by another configuration.
            progress.is_done = lot.key._replace(late=None) not in self.lots.open
            return set()
        at = judged(way, lot.origins, self.books)
        state, reason = self._state(lot, at, progress, until, now_ms)
        if state is not State.SETTLED and not is_over:
            if lot.key.late is None and (standing.state, standing.reason) != (state, reason):
                standing.state, standing.reason = state, reason
                return {(way.name, lot.key.minute)}
            return set()
        unknown, why = self._torn(lot, at, progress)
        standing.add(at, unknown)
        standing.lots.append(lot.key.late)
        standing.late += len(lot.origins) if lot.key.late is not None else 0
        standing.misdated += len(lot.misdated)
        is_unknown = bool(unknown) or state is not State.SETTLED
        if lot.key.late is None or is_unknown:
            standing.state, standing.reason = (State.UNKNOWN if is_unknown else State.SETTLED), why or reason
        progress.is_done = True
        return {(way.name, lot.key.minute)}

    def _state(
        self, lot: Lot, at: Sequence[AtHop], progress: _Progress, until: Mapping[Node, int], now_ms: int
    ) -> tuple[State, str | None]:
        needed_ms = lot.due_ms
        for index, each in enumerate(at):
            node, name = each.hop.node, node_name(each.hop.node)
            heard_ms = self.books.heard_ms.get(node, 0)
            is_silent = now_ms - heard_ms > _SILENCE_MS
            is_ingest = index == 0 and node.kind is NodeKind.ingest
            if index not in progress.sure_ms:
                end_ms = ((lot.key.minute if lot.key.late is None else lot.key.late) + 1) * MINUTE_MS
                said_all = heard_ms >= end_ms if is_ingest else until.get(node, 0) >= needed_ms
                if said_all or (index and not each.missing):
                    progress.sure_ms[index], progress.gone[index] = now_ms, len(each.went)
            elif len(each.went) > progress.gone[index]:
                # A dead letter goes after all: those behind are given time for it.
                progress.sure_ms = {hop: at_ms for hop, at_ms in progress.sure_ms.items() if hop < index}
                progress.sure_ms[index], progress.gone[index] = now_ms, len(each.went)
            if index in progress.sure_ms:
                needed_ms = progress.sure_ms[index]
                continue
            state = State.UNKNOWN if is_silent else State.OPEN
            if index == 0:
                what = "is silent" if is_silent else "is behind"
                return state, f"{name} {what}: what came in there is not all known"
            return state, f"{name} {'is silent' if is_silent else 'is behind'}: {len(each.missing):,} events are open"
        return State.SETTLED, None

    def _torn(self, lot: Lot, at: Sequence[AtHop], progress: _Progress) -> tuple[Origins, str | None]:
        """What is missing where a node could not say what it had to, and how to call that."""
        unknown, why = Origins(), None
        for index, each in enumerate(at):
            sure_ms = progress.sure_ms.get(index)
            if each.missing and (
                sure_ms is None or any(_concerns(torn, each, lot, sure_ms) for torn in self.reached.torn)
            ):
                unknown |= each.missing
                why = f"{node_name(each.hop.node)} has not said what became of {len(each.missing):,} events"
        return unknown, why

    def _close(self, lot: Lot) -> None:
        self.lots.close(lot)
        for way in self._by_entry[lot.key.entry]:
            del self._progress[lot.key, way.name]
        for node in self._nodes_behind[lot.key.entry]:
            self._gone.closed(node, lot.key.minute, len(self.books.of(node).went & lot.dated))
        self._is_over(lot.key.entry, lot.origins)

    def _follow(self) -> set[tuple[str, int]]:
        """What became of those that were lost, waiting or dead when their minute was judged."""
        touched = set[tuple[str, int]]()
        said, self._said = self._said, Origins()
        if not said:
            return touched
        gone = GoneLate(self._gone)
        for key, standing in self._standing.items():
            if not standing.remaining & said:
                continue
            is_open = [lot.origins for lot in self.lots.of_minute(standing.minute)]
            gone.take([hop.node for hop in standing.way.hops], standing.minute, standing.remaining, is_open)
            self._is_over(standing.way.hops[0].node, standing.follow(self.books))
            touched.add(key)
        return touched

    def _is_over(self, entry: Node, origins: Origins) -> None:
        if origins:
            self._over.setdefault(entry, []).append(origins)

    def _forget_over(self) -> None:
        """Once a tick: for each lot by itself one would go over all that is open, and copy the books."""
        over, self._over = {entry: joined(some) for entry, some in self._over.items()}, {}
        if not over:
            return
        needed = self._needed(joined(over.values()))
        for entry, some in over.items():
            self.books.forget(some - needed, self._nodes_behind[entry])

    def _needed(self, origins: Origins) -> Origins:
        """Those that a way has not judged yet, or follows."""
        found = joined(lot.origins & origins for lot in self.lots.open.values())
        left = origins - found
        return found | joined(standing.remaining & left for standing in self._standing.values()) if left else found

    def _written(self, key: tuple[str, int], log_ms: int) -> MinuteVerdict | None:
        standing = self._standing[key]
        lot = self.lots.open.get(LotKey(standing.way.hops[0].node, standing.minute, None))
        is_open = lot is not None and None not in standing.lots
        at = judged(standing.way, lot.origins, self.books) if lot is not None and is_open else []
        progress = self._progress.get((lot.key, key[0]), _Progress()) if lot is not None else _Progress()
        verdict = standing.verdict(self.books, self._sla, self._times_of, at, progress.sure_ms)
        record = _record(verdict)
        if self._records.get(key) == record:
            return None
        self._records[key] = record
        # Of some partitions of the tallies more is read than of all of them, and lags of that are in it too.
        return replace(verdict, until_ms=max(log_ms, self._heard_ms))

    def _times_of(self, node: Node, minute: int) -> Times:
        before, lag = self._times_before(node, minute), self.books.lag(node, minute)
        gone = self._gone.of(node, minute)
        for lot in self.lots.of_minute(minute):
            gone += len(self.books.of(node).went & lot.dated)
        duplicates = self.books.again(node, minute) + max(0, lag.went.count - gone)
        return Times(before.lag + lag, before.duplicates + duplicates)

    def _times_before(self, node: Node, minute: int) -> Times:
        way = self._restored_way(node, minute)
        if way is None:
            return Times()
        if (node, minute) not in self._times:
            stood = decoded(self._records[way.name, minute]).hops[[hop.node for hop in way.hops].index(node)]
            self._times[node, minute] = Times(stood.lag, stood.duplicates)
        return self._times[node, minute]

    def _first_times(self, report: Report) -> Mapping[int, int]:
        """By minute that is judged, if some of the report's events had gone before: how many, at most, went for the
        first time. What is done once more, such as a day that is processed again, makes no event of the minute late."""
        tallies = [tally for tally in report.tallies if not tally.route]
        late = {tally.minute: tally.lag.went.count for tally in tallies if tally.minute is not None and tally.lag.went}
        entries = {way.hops[0].node for way in self._ways_over[report.node]}
        late = {minute: count for minute, count in late.items() if self._is_judged(entries, minute)}
        if not late:
            return {}
        went = joined(tally.went for tally in tallies)
        followed = {minute: went & self._followed(report.node, minute) for minute in late}
        again = went - reduce(Origins.__and__, (self.lots.fresh(entry, went) for entry in entries))
        again = again - joined(followed.values())
        again = again - self._needed(again) if again else again
        most = {minute: max(len(followed[minute]), count - len(again)) for minute, count in late.items()}
        return {minute: first for minute, first in most.items() if first < late[minute]}

    def _followed(self, node: Node, minute: int) -> Origins:
        standings = (self._standing.get((way.name, minute)) for way in self._ways_over[node])
        return joined(standing.remaining for standing in standings if standing is not None)

    def _is_judged(self, entries: Collection[Node], minute: int) -> bool:
        return all(None in self.lots.judged.get((entry, minute), ()) for entry in entries) and not any(
            lot.key.entry in entries for lot in self.lots.of_minute(minute)
        )

    def _lags_until(self, node: Node, minute: int) -> int:
        """Up to when its lags of the minute are in a verdict of an observer before this one."""
        way = self._restored_way(node, minute)
        return 0 if way is None else self._restored[way.name, minute]

    def _restored_way(self, node: Node, minute: int) -> Way | None:
        """The one of its ways whose restored record has most of its lags. It says nothing of nodes of other ways."""
        own = [way for way in self._ways_over[node] if (way.name, minute) in self._restored]
        return max(own, key=lambda way: self._restored[way.name, minute], default=None)

    def _stand(self, way: Way, minute: int) -> Standing:
        key = way.name, minute
        standing = self._standing.get(key)
        if standing is None:
            record = self._records.get(key)
            standing = Standing.new(way, minute) if record is None else Standing.of(decoded(record), way, self.books)
            self._standing[key] = standing
        return standing

    def _forget(self, log_ms: int) -> None:
        oldest = minute_of(log_ms) - KEPT_MINUTES
        open_minutes = {lot.key.minute for lot in self.lots.open.values()}
        for key, standing in [*self._standing.items()]:
            is_over = key[1] < oldest
            if key[1] not in open_minutes and (is_over or not standing.remaining):
                del self._standing[key]
        self._give_up([key for key in self._standing if key[1] not in open_minutes])
        for key in [key for key in self._records if key[1] < oldest]:
            del self._records[key]
            self._judged.pop(key, None)
            self._restored.pop(key, None)
        self.lots.forget_minutes(oldest)
        self.books.forget_minutes(oldest)
        self._gone.forget(oldest)
        for old in [key for key in self._times if key[1] < oldest]:
            del self._times[old]
        self.reached.forget_torn(self.lots.from_ms(log_ms) - MINUTE_MS)

    def _give_up(self, followed: Sequence[tuple[str, int]]) -> None:
        """The oldest, if all take too much. Their verdicts stay as they are."""
        too_much = sum(self._standing[key].size for key in followed) - _MOST_FOLLOWED
        for key in sorted(followed, key=lambda key: key[1]) if too_much > 0 else ():
            # All ways of a minute at once: what one of them follows the others may, too.
            if too_much <= 0 and key[1] != self.given_up:
                break
            standing = self._standing.pop(key)
            too_much -= standing.size
            self.given_up = key[1]
            self._is_over(standing.way.hops[0].node, standing.remaining)


def _followers(ways: Sequence[Way]) -> Mapping[Node, Sequence[tuple[Node, str]]]:
    """Of each node right behind an ingest entry: the entry, and its topic. One entry for a topic."""
    found: dict[Node, list[tuple[Node, str]]] = {}
    seen: set[tuple[Node, str]] = set()
    for way in ways:
        if way.topic is not None and len(way.hops) > 1 and (way.hops[1].node, way.topic) not in seen:
            seen.add((way.hops[1].node, way.topic))
            found.setdefault(way.hops[1].node, []).append((way.hops[0].node, way.topic))
    return found


def _concerns(torn: Torn, at: AtHop, lot: Lot, sure_ms: int) -> bool:
    return torn.node == at.hop.node and torn.after_ms <= sure_ms and torn.until_ms >= lot.first_ms - MINUTE_MS


def _record(verdict: MinuteVerdict) -> bytes:
    """The same for verdicts that say the same."""
    return encoded(replace(verdict, until_ms=0))
