"""Decodes a letter's value as far as possible, column by column, in the format of its original topic."""

from enrich.admin.rejected.letter import Letter
from enrich.codecs import Piece, pieces_of, schemas_of
from enrich.config import Pipeline, Source, SyncWriteback, Table


def decoded_pieces(pipeline: Pipeline, letter: Letter) -> list[Piece]:
    """The decoded columns. Empty if the configuration does not say which columns there should be."""
    section = _section(pipeline, letter)
    if section is None or not letter.value:
        return []
    return list(pieces_of(section, letter.value, schemas_of(pipeline.kafka.registry)))


def _section(pipeline: Pipeline, letter: Letter) -> Table | SyncWriteback | None:
    routes = {} if pipeline.sync is None else pipeline.sync.writeback
    if letter.stage in routes:
        return routes[letter.stage]
    stage = pipeline.stages.get(letter.stage)
    return None if stage is None else _as_table(stage.source, letter.topic)


def _as_table(source: Source, topic: str) -> Table | None:
    columns = (source.schemas or {}).get(topic, source.columns)
    if columns is None:
        return None
    return Table.model_validate({"topic": topic, "format": str(source.format), "columns": str(columns)})
