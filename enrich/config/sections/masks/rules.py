"""Rules of the section `masks`, and between it and the stages."""

from collections.abc import Iterator

from enrich.config.messages.problems import Finding
from enrich.config.messages.words import hint, listed
from enrich.config.sections.masks.classifying import Classification
from enrich.config.sections.masks.section import RECORD_KEY, TO_TEXT, Masking, Masks, is_entry
from enrich.config.sections.pipeline import Pipeline
from enrich.config.types.column_types import Simple
from enrich.config.types.encoding import Format

_OF_KEYS = (Masking.show, Masking.withhold, Masking.hmac)


def mask_rules(pipeline: Pipeline) -> Iterator[Finding]:
    masks, classes = pipeline.masks, Classification.of_pipeline(pipeline)
    if masks is None or classes is None:
        return
    yield from _words(masks)
    for name, stage in pipeline.stages.items():
        here = ("stages", name, "source")
        if stage.source.format not in (Format.json, Format.avro):
            message = f"masks are for columns, and events of the format {stage.source.format} have none"
            yield Finding((*here, "format"), message, about=(("masks",),))
        columns = stage.source.columns
        topics = stage.source.all_topics
        if columns is None or not topics:
            continue
        for column in columns.columns:
            maskings = [classes.of(topic).of(column.name).masking for topic in topics]
            text = [masking for masking in maskings if masking in TO_TEXT]
            if text and column.type != Simple("string"):
                message = f"the mask {text[0]} makes text of {column.name}, which is a {column.type} here"
                key = "schema" if stage.source.schemas is None else "schemas"
                yield Finding((*here, key), message, about=(("masks",),))


def _words(masks: Masks) -> Iterator[Finding]:
    known = [*Masking, *masks.tags]
    for tag in masks.tags:
        if tag in Masking.__members__:
            yield Finding(("masks", "tags", tag), f"{tag} is a mask: choose another word", key=True)
    for entry, columns in masks.entries.items():
        if not is_entry(entry):
            message = "expected a topic or table, or a pattern such as app.* of letters, digits and . _ - * ?"
            yield Finding(("masks", entry), message, key=True)
        for column, word in columns.items():
            masking = masks.masking(word)
            if masking is None:
                close = hint(word, known, "masks and tags")
                yield Finding(("masks", entry, column), f"there is no mask or tag {word}{close}")
            elif column == RECORD_KEY and masking not in _OF_KEYS:
                message = f"expected {listed([*_OF_KEYS])} for the key of records, got {word}"
                yield Finding(("masks", entry, column), message)
