"""The workers' part of joining whole events: read, answered and written in columns. Arrow in, Arrow out."""

from collections.abc import Mapping, Sequence

import pyarrow as pa

from enrich.stage.events.fields import EventFields
from enrich.stage.events.splicing import spliced
from enrich.stage.events.text import json_text, members_text, object_of
from enrich.stage.task.fate import Fate
from enrich.stage.task.spec import FATE, LINEAGE, OUTCOME, lineage_name, object_name, part_name
from enrich.stage.task.whole import WholeSpec
from enrich.stage.worker.answers import Answers, Questions


class Enriching:
    """Enriches the batches of one task."""

    def __init__(self, spec: WholeSpec, answers: Answers) -> None:
        self._spec = spec
        self._answers = answers
        self._reader = EventFields(spec.fields.arrow)

    def enriched(self, values: pa.BinaryArray, times: pa.Array) -> pa.StructArray:
        """One batch of type `WholeSpec.kind`."""
        usable, rows = self._reader.read(values)
        # flatten() makes all fields of a null event null, so that it asks for nothing.
        fields = dict(zip(self._spec.fields.names, rows.flatten(), strict=True))
        keys = [_key([fields[name] for name in names]) for names in self._spec.keys]
        needed = times if self._spec.task.needs_times else None
        answer = self._answers.answer(Questions(usable, keys, needed))
        forwarded = usable & (answer.field(FATE).to_numpy() == Fate.FORWARD)
        output = spliced(values, forwarded, members_text(self._members(answer)))
        columns = [pa.array(usable), output, *(answer.field(name) for name in OUTCOME)]
        return pa.StructArray.from_arrays(columns, fields=list(self._spec.kind))

    def _members(self, answer: pa.StructArray) -> Mapping[str, pa.BinaryArray]:
        named = list(enumerate(self._spec.task.lookups))
        members = {lookup.name: json_text(answer.field(object_name(index))) for index, lookup in named}
        if self._spec.task.lineage:
            each = {lookup.name: json_text(answer.field(lineage_name(index))) for index, lookup in named}
            members[LINEAGE] = object_of(each)
        return members


def _key(parts: Sequence[pa.Array]) -> pa.Array:
    if len(parts) == 1:
        return parts[0]
    return pa.StructArray.from_arrays(list(parts), names=[part_name(number) for number in range(len(parts))])
