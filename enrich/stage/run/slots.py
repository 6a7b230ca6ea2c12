"""Events through slots: the profile `realtime`."""

import logging
import time
from collections.abc import Mapping, Sequence
from contextlib import closing, suppress
from functools import cache
from uuid import uuid4

from enrich.base.backoff import Backoff
from enrich.base.errors import ConfigError, EnrichError, Fenced, Retryable, Unreachable, WouldLoseData
from enrich.stage.plan.plan import StagePlan
from enrich.stage.progress.added_topics import new_partition_lost
from enrich.stage.progress.source_topics import NAME, Position, SourceTopics
from enrich.stage.progress.source_watch import SourceWatch
from enrich.stage.progress.starting import first_offsets, refuse_choice, starting_options, starts_from_own_group
from enrich.stage.realtime.assignment import Partition, each_partition
from enrich.stage.realtime.commits import Commits, GroupCommits
from enrich.stage.realtime.counted import Counted
from enrich.stage.realtime.counts import Counts
from enrich.stage.realtime.job import SlotJob, SlotJobFailed
from enrich.stage.realtime.progress import Mark
from enrich.stage.realtime.taking_over import Run, end_slots, take_over
from enrich.stage.run.preload import slots_of
from enrich.stage.run.start import Start
from enrich.stage.run.topics import require_allowed

_log = logging.getLogger(__name__)

_MOST_FAILURES = 5
"""In a row, without an event between them."""
_TOPICS_EVERY_S = 5.0
_LACKING_S = 15.0
_EXECUTORS_S = 60.0
"""How long a start waits for the first one."""
_DEADLINE_S = 5.0


class SlotFlow:
    """See `Flow`."""

    def __init__(self, start: Start) -> None:
        stage, found, checkpoint = start.stage, start.found, start.checkpoint
        if checkpoint.has_progress():
            raise ConfigError(
                "the checkpoint is one of Spark's batches, whose progress a stage with profile: realtime does not read",
                where=f"stages.{start.name}.checkpoint",
                next_step="name another checkpoint, and start with --from group: after a drain nothing is left out or "
                "repeated",
            )
        if str(start.spark.conf.get("spark.speculation", "false")).strip().lower() == "true":
            raise ConfigError(
                "spark.speculation begins slow tasks twice, and a slot is a task that never ends",
                where=f"stages.{start.name}.settings",
                next_step="set spark.speculation to false",
            )
        self._start = start
        self._group = start.progress.group
        self._commits = start.held.enter_context(closing(GroupCommits(start.connection, self._group)))
        self._partitions: Mapping[str, Sequence[int]] = found.partitions
        self._mark = Mark.read(checkpoint) or Mark()
        accepts = start.options.accept_new_source
        self.source = SourceTopics(found.ids)
        if self._has_begun:
            refuse_choice(start.name, start.options.start)
            text, reads = checkpoint.read(NAME), stage.source.reads
            self.source = self.source.after(text, self._mark.known, reads, accepts_another=accepts)
            committed = self._commits.read(self._all)
            self._mark.require_in(committed, self._group, start.name)
            start.require_kept(_position(committed))
        elif start.options.start is None:
            self.source.require_begun(checkpoint.read(NAME), self._mark.first_offsets, accepts_another=accepts)
        self.plan = StagePlan(
            start.spark, start.pipeline, start.name, found.limits, source_ids=self.source.ids_in_letters
        )
        self._worker_plan = self.plan.by_workers()
        if not self._has_begun:
            self._mark = Mark.first(self._first_offsets())
        self.metrics = start.new_metrics(self.plan)
        self._counted = Counted(self.metrics)
        self._watch: SourceWatch | None = None
        self._driver = str(uuid4())
        self._runs = 0
        self._run: Run | None = None
        self._job: SlotJob | None = None
        self._failures = self._events_then = 0
        self._anew_at: float | None = None
        """When to try again to begin all slots anew, since the brokers did not answer."""
        self._pause = Backoff(0.5, 10.0)
        self._asked_at = 0.0
        self._is_in_doubt = True
        """Whether a newer driver began in the same moment."""
        self._lacks_since: float | None = None
        """Since when some slots have ended, and others not."""

    def shut_out(self) -> None:
        """Slots of another driver end as soon as they next commit. They are asked for again once it has ended."""
        end_slots(self._start.connection, self._group, self._commits.read(self._all))

    def take_over(self) -> None:
        start = self._start
        newest = Mark.read(start.checkpoint)
        if newest is not None and newest.known:
            self._mark = newest  # the driver before this one may have begun since the checks
        self._mark.keep_with(start.checkpoint)
        self.source.keep_with(start.checkpoint)
        end = time.monotonic() + _EXECUTORS_S
        while not self._most_slots() and time.monotonic() < end:
            time.sleep(0.1)
        self._begin_run()

    def begin(self, watch: SourceWatch) -> None:
        self._watch = watch
        self._begin_job()

    def has_ended(self, within_s: float) -> bool:
        if self._anew_at is not None:
            time.sleep(max(0.0, min(within_s, self._anew_at - time.monotonic())))
            if time.monotonic() >= self._anew_at:
                self._begin_anew()
            return False
        if self._job is None:
            raise RuntimeError("the job has not begun")
        try:
            if not self._job.has_ended(within_s):
                return False
        except SlotJobFailed as failed:
            self._note_failure(failed.error)
        except EnrichError as error:
            self._require_topics(error)
            raise
        else:
            # All slots were shut out: by another driver, or because their transactions have timed out.
            self._note_failure(_another_driver())
        self._begin_anew()
        return False

    def look(self) -> None:
        if self._anew_at is not None:
            return
        try:
            commits = self._commits.read(self._all, _DEADLINE_S)
            self._count(commits)
            if self._has_others(commits):
                # A newer one's, who has fenced this driver; or those of an older one that began in the same moment.
                _log.warning("partitions are another driver's; the slots begin again, unless that one is the newer")
                self._begin_anew()
                return
            if self._is_in_doubt and len(self._told_by(commits)) == len(self._run_now.slots):
                # A newer driver may have ended all slots just before these began.
                self._require_newest()
                self._is_in_doubt = False
            self._start.progress.say_used(next(iter(self._partitions)))
            if time.monotonic() - self._asked_at >= _TOPICS_EVERY_S:
                self._asked_at = time.monotonic()
                self._look_for_more()
                self._look_for_lack()
        except Retryable as error:
            _log.info("the brokers do not say how far the stage is", extra={"reason": str(error)})

    def drain(self) -> None:
        """What slots have begun they leave to those who come next: nothing of it is written."""
        try:
            self._end_run()
        except Retryable as error:
            # Only the totals may be short. What is open the brokers end, or the next start.
            _log.warning("the brokers do not answer; ending without them", extra={"reason": str(error)})

    def end(self, failure: EnrichError | None) -> bool:
        self._stop_job()
        if failure is not None and not isinstance(failure, Fenced):
            with suppress(EnrichError):  # then the brokers end it, after a minute
                self._end_slots()
        return failure is None

    def totals(self) -> Mapping[str, int]:
        return self._counted.totals()

    @property
    def _has_begun(self) -> bool:
        return bool(self._mark.known)

    @property
    def _all(self) -> list[Partition]:
        return each_partition(self._partitions)

    def _begin_run(self) -> None:
        start = self._start
        slots = self._most_slots()
        if not slots:
            raise Unreachable("Spark has no executor", next_step="see in Spark's log why none starts")
        self._runs += 1
        oldest = cache(self._oldest_of)
        self._run = take_over(
            start.connection,
            self._group,
            f"{self._driver}.{self._runs}",
            self._partitions,
            slots,
            # The driver that is shut out now has gone on since they were read.
            {} if starts_from_own_group(start.options.start) else self._mark.first_offsets,
            lambda each: self._first_of(each, oldest(each[0])),
            start.progress.commit_these,
        )
        # A newer one that began in the same moment may have moved the same partitions before.
        self._require_newest()
        self._mark = self._mark.begun(self._partitions)
        self._mark.keep_with(start.checkpoint)
        self._counted.begin()

    def _most_slots(self) -> int:
        """With the executors that there are now."""
        most = self._start.stage.slots
        return min(slots_of(self._start.spark), len(self._all), *([] if most is None else [most]))

    def _begin_job(self) -> None:
        start = self._start
        own = (start.spark, start.pipeline, start.name, self._run_now, self._worker_plan)
        self._job = SlotJob(*own, self._mark.id, start.found.limits)
        self._lacks_since, self._is_in_doubt = None, True

    def _note_failure(self, error: EnrichError) -> None:
        """Workers and executors die; that is no reason for the stage to end, unless it comes to nothing again and
        again."""
        events = self._counted.totals()["events"]
        self._failures = 1 if events > self._events_then else self._failures + 1
        self._events_then = events
        if self._watch is not None:
            self._watch.require_same()
        if self._failures > _MOST_FAILURES:
            raise error
        _log.warning("the slots begin again", extra={"reason": str(error)})

    def _begin_anew(self) -> None:
        """All slots; later, if the brokers do not answer now. Raises Fenced if another driver has taken over."""
        try:
            self._end_run()
            self._require_newest()
            self._begin_run()
            self._begin_job()
        except Retryable as error:
            wait_s = self._pause.next_s()
            self._anew_at = time.monotonic() + wait_s
            _log.warning("the slots cannot begin now", extra={"reason": str(error), "in_s": wait_s})
        except (ConfigError, WouldLoseData) as error:
            self._require_topics(error)
            raise
        else:
            self._anew_at = None
            self._pause.reset()

    def _require_topics(self, error: EnrichError) -> None:
        """Says more than what brokers, or slots, say of a topic that is gone, or that this user may not use now."""
        if self._watch is not None:
            self._watch.require_same_now()
        if isinstance(error, ConfigError):
            require_allowed(self._start.pipeline, self._start.name, self._start.connection)

    def _end_run(self) -> None:
        """Once no slot can commit any more all that they have done is counted."""
        self._stop_job()
        self._end_slots()
        self._count(self._commits.read(self._all, _DEADLINE_S))

    def _has_others(self, commits: Commits) -> bool:
        """Whether some partition is another driver's."""
        own = f"{self._driver}."
        return any(each.note is not None and not each.note.run.startswith(own) for each in commits.values())

    def _require_newest(self) -> None:
        """Raises Fenced if another driver has taken over."""
        self._start.progress.require_newest(next(iter(self._partitions)))

    def _end_slots(self) -> None:
        if self._run is not None:
            commits = self._commits.read(self._all, _DEADLINE_S)
            end_slots(self._start.connection, self._group, commits, of=self._run.id)

    def _stop_job(self) -> None:
        if self._job is not None and not self._job.stop():
            _log.warning("the slots do not end; the stage goes on without waiting for them")
        self._job = None

    def _look_for_more(self) -> None:
        """Partitions, or topics, that the source has got: all slots are made anew."""
        if self._watch is None:
            return
        known = self._watch.known
        found = self._start.topics.identities(sorted(known.ids))
        partitions = {topic: each[1] for topic, each in found.items() if not isinstance(each, EnrichError)}
        if known is self.source and partitions == self._partitions:
            return
        if any(len(partitions.get(topic, ())) < len(own) for topic, own in self._partitions.items()):
            # A topic that is gone ends the stage: its slot says so, if it goes on. And a broker may be behind.
            return
        _log.info(
            "the source has grown; the slots begin again", extra={"partitions": sum(map(len, partitions.values()))}
        )
        self.source, self._partitions = known, partitions
        self.source.keep_with(self._start.checkpoint)
        self._begin_anew()

    def _look_for_lack(self) -> None:
        """A driver that takes over shuts out all slots. If only some have ended, or their executor is gone for good,
        nobody reads their partitions. New executors could have some."""
        if self._job is None or self._run is None:
            return
        if not self._job.ended_slots() and self._most_slots() in (0, len(self._run.slots)):
            self._lacks_since = None
        elif self._lacks_since is None:
            self._lacks_since = time.monotonic()
        elif time.monotonic() - self._lacks_since >= _LACKING_S:
            _log.warning("slots have ended, or executors have gone or come: all slots begin again")
            self._begin_anew()

    def _count(self, commits: Commits) -> None:
        self._counted.slots(self._told_by(commits))
        behind: dict[str, int] = {}
        for topic, ends in self._start.topics.ends(sorted(self._partitions)).items():
            if not isinstance(ends, EnrichError):
                left = (end - commits[topic, n].offset for n, end in ends.offsets.items() if (topic, n) in commits)
                behind[topic] = sum(max(0, each) for each in left)
        self.metrics.reached(behind)

    def _told_by(self, commits: Commits) -> Mapping[int, Counts]:
        """What the slots of this run have counted, if they have said it already."""
        notes = [commit.note for commit in commits.values() if commit.note is not None]
        run = self._run_now.id
        return {each.slot: each.counts for each in notes if each.run == run and each.counts is not None}

    @property
    def _run_now(self) -> Run:
        if self._run is None:
            raise RuntimeError("nothing is taken over")
        return self._run

    def _oldest_of(self, topic: str) -> Mapping[int, int]:
        """For partitions of which the group has no offset. Raises WouldLoseData if it has lost them: people may delete
        a group of which brokers know no member."""
        self._mark.require_in(self._commits.read(self._all), self._group, self._start.name)
        return self._start.topics.start_offsets(topic)

    def _first_of(self, partition: Partition, oldest: Mapping[int, int]) -> int:
        """Where a partition begins that the stage has never read."""
        topic, number = partition
        if number not in oldest:
            raise Retryable("not all brokers know of the partition yet", where=f"topic {topic}, partition {number}")
        if oldest[number] and topic in self._mark.known:
            raise new_partition_lost(topic, number, oldest[number])
        return oldest[number]

    def _first_offsets(self) -> Position:
        """Where a stage that never ran begins."""
        start = self._start
        if self._mark.begins is not None and start.options.start is None:  # an earlier start came no further
            return self._mark.first_offsets
        options = starting_options(
            start.name,
            start.found.partitions,
            has_progress=False,
            progress=start.progress,
            chosen=start.options.start,
            kept=start.require_kept,
        )
        return {topic: first_offsets(options, start.topics, topic) for topic in start.found.partitions}


def _another_driver() -> Fenced:
    return Fenced("another driver runs this stage", next_step="run one driver of a stage only")


def _position(commits: Commits) -> Position:
    position: dict[str, dict[int, int]] = {}
    for (topic, number), commit in commits.items():
        position.setdefault(topic, {})[number] = commit.offset
    return position
