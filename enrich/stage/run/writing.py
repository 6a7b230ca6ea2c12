"""How the batches of a stage reach its topics: by Spark's stream sink, or each by a job of its own, as of its pin."""

from collections.abc import Mapping
from typing import Protocol

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, Observation
from pyspark.sql.streaming.readwriter import DataStreamWriter

from enrich.base.errors import EnrichError
from enrich.stage.measure.counting import StageCounts
from enrich.stage.plan.plan import StagePlan
from enrich.stage.progress.pinning import PinBook, TableEnds
from enrich.stage.task.failures import from_report

# Spark's V1 sink, its default for Kafka, does not report to observations.
_NEW_KAFKA_SINK = ("spark.sql.sources.useV1SourceList", "avro,csv,json,orc,parquet,text")


class Writing(Protocol):
    """One of the two ways."""

    @property
    def failure(self) -> EnrichError | None:
        """The error that ended the query, if Spark's own message does not contain it."""

    def of(self, events: DataFrame) -> DataStreamWriter: ...


class StreamedBatches:
    """`replay: latest`: Spark's own sink. A repeated batch sees the tables as they are when it is repeated."""

    failure: EnrichError | None = None

    def __init__(self, plan: StagePlan, options: Mapping[str, str]) -> None:
        self._plan = plan
        self._options = options

    def of(self, events: DataFrame) -> DataStreamWriter:
        return self._plan.records(events).writeStream.format("kafka").options(**self._options)


class PinnedBatches:
    """`replay: deterministic`: each batch is a Spark job of its own, whose tables answer as of the batch's pin."""

    def __init__(
        self, plan: StagePlan, pins: PinBook, ends: TableEnds, options: Mapping[str, str], counts: StageCounts
    ) -> None:
        self._plan = plan
        self._pins = pins
        self._ends = ends
        self._options = options
        self._counts = counts
        self.failure: EnrichError | None = None

    def of(self, events: DataFrame) -> DataStreamWriter:
        return events.writeStream.foreachBatch(self._write)

    def _write(self, batch: DataFrame, number: int) -> None:
        try:
            observation = Observation()
            records = self._plan.records(batch, self._pins.pin_of(number, self._ends), observation)
            batch.sparkSession.conf.set(*_NEW_KAFKA_SINK)
            records.write.format("kafka").mode("append").options(**self._options).save()
            self._counts.written(number, observation.get)
            self._pins.clean(number)
        except EnrichError as error:
            self.failure = error
            raise
        except (PySparkException, Py4JJavaError) as error:
            self.failure = from_report(str(error))
            raise
