"""What a first pipeline is made of. Checks what people chose, each by itself, and fills in what they left out."""

import re
from dataclasses import dataclass
from pathlib import Path

from enrich.admin.starting.metadata import Found, Metadata
from enrich.base.errors import ConfigError
from enrich.config import FileType
from enrich.config.messages.words import Wrong, hint, shortened, shown
from enrich.config.types.fields import NAME_PATTERN, TOPIC_PATTERN, Matching

STAGE = "enrich"
_TOPIC = Matching(TOPIC_PATTERN, "a topic name of at most 249 letters, digits, . _ and -")
_NAME = Matching(NAME_PATTERN, "a name of at most 63 letters, digits, _ and - that starts with a letter or digit")
_OBJECT = Matching(r"^[A-Za-z_][A-Za-z0-9_]*$", "a name of letters, digits and _")
_TEXTS = ("string", "date", "timestamp")


@dataclass(frozen=True)
class Choices:
    """All that the file says, with nothing left to decide."""

    name: str
    brokers: str
    events: str
    output: str
    dead: str
    table: str
    rows: str
    """The table's topic."""
    object: str
    """The name under which an event gets its row: `as` of the lookup."""
    metadata: Metadata
    key: tuple[str, ...]
    fields: tuple[str, ...]
    """The event's fields that hold the key; `device.id` is a field inside another."""

    @property
    def columns(self) -> tuple[Found, ...]:
        """Of a row's value. The key is the record's own, unless a file of JSON has it as a number."""
        return tuple(one for one in self.metadata.columns if one.name not in self.key or not self._is_text(one.name))

    @property
    def is_cidr(self) -> bool:
        """The keys are networks, and events have addresses."""
        return len(self.key) == 1 and self.metadata.column(self.key[0]).are_networks

    def type_of(self, index: int) -> str:
        """Of an event's field. As text, ids match in events that have them as numbers, and in those that do not; only
        in a composite key a number is another key than its text."""
        is_number = len(self.key) > 1 and not self._is_text(self.key[index])
        return "bigint" if is_number else "string"

    def _is_text(self, column: str) -> bool:
        return self.metadata.format == FileType.csv or self.metadata.column(column).type in _TEXTS


def topic(text: str, flag: str) -> str:
    return _checked(_TOPIC, text, flag)


def name(text: str, flag: str) -> str:
    return _checked(_NAME, text, flag)


def object_name(text: str, fields: tuple[str, ...]) -> str:
    checked = _checked(_OBJECT, text, "--as")
    if checked.casefold() in _taken(fields):
        raise ConfigError(
            f"the event has {shown(checked)} already: the row would replace it",
            where="--as",
            next_step="choose another",
        )
    return checked


def key_columns(text: str, metadata: Metadata) -> tuple[str, ...]:
    """Raises ConfigError for columns that the file does not have, or that cannot be a key."""
    names = _listed(text, "--key")
    where = f"file {shortened(str(metadata.path))}"
    for column in names:
        if column not in metadata.names:
            found = hint(column, metadata.names, "its columns are") or "; it has none"
            header = ""
            if metadata.format == FileType.csv and "its columns are" in found:
                header = "if these are values, put a line with the columns' names above them"
            raise ConfigError(f"there is no column {shortened(column)}{found}", where=where, next_step=header or None)
        kind = metadata.column(column).type
        if metadata.format == FileType.json and kind not in (*_TEXTS, "bigint"):
            raise ConfigError(
                f"column {column} is {kind}: it cannot be a key", where=where, next_step="use text or whole numbers"
            )
    if len(names) == len(metadata.names):
        raise ConfigError(
            "the file has the key and no other column: there is nothing to join",
            where=where,
            next_step="add a column, or name fewer in --key",
        )
    return names


def event_fields(text: str, key: tuple[str, ...]) -> tuple[str, ...]:
    """Raises ConfigError unless there is a field for each column of the key."""
    fields = _listed(text, "--event-key")
    if len(fields) != len(key):
        raise ConfigError(
            f"the key has {len(key)} columns ({', '.join(key)}) and the event {len(fields)} fields for it",
            where="--event-key",
            next_step="name one field for each column, in the same order, separated by commas",
        )
    for field in fields:
        if not all(field.split(".")) or not field.isprintable():
            raise ConfigError(f"{shown(field)} names no field", where="--event-key", next_step="such as device.id")
        longer = next((other for other in fields if other.startswith(f"{field}.")), None)
        if longer is not None:
            raise ConfigError(f"{field} cannot hold {longer} and be a key itself", where="--event-key")
    return fields


def name_for(events: str) -> str:
    """`plays` for the topic plays.raw."""
    return _as_name(events.split(".")[0], "pipeline")


def output_for(events: str) -> str:
    stem = events.removesuffix(".raw")
    return f"{stem}.enriched"[-249:]


def table_for(path: Path) -> str:
    return _as_name(path.stem, "rows")


def object_for(table: str, fields: tuple[str, ...]) -> str:
    found = table.replace("-", "_")
    found = f"_{found}" if found[0].isdigit() else found
    return f"{found}_row" if found.casefold() in _taken(fields) else found


def check_topics(choices: Choices) -> Choices:
    """Raises ConfigError if a topic has two uses: a stage would read what it writes."""
    uses = {"events": choices.events, "output": choices.output, "dead letters": choices.dead, "rows": choices.rows}
    for use, topic_name in uses.items():
        other = next((one for one, its in uses.items() if its == topic_name and one != use), None)
        if other is not None:
            raise ConfigError(
                f"topic {topic_name} would be for {use} and for {other}",
                next_step="choose other names: --events, --output, --table",
            )
    return choices


def _taken(fields: tuple[str, ...]) -> set[str]:
    return {field.split(".")[0].casefold() for field in fields} | {"_lineage"}


def _as_name(text: str, otherwise: str) -> str:
    return re.sub(r"[^A-Za-z0-9_-]+", "-", text).strip("-_")[:50] or otherwise


def _listed(text: str, flag: str) -> tuple[str, ...]:
    names = tuple(part.strip() for part in text.split(","))
    if not all(names) or len(set(names)) < len(names):
        what = "is empty" if not all(names) else "occurs twice"
        raise ConfigError(f"a name {what} in {shown(text)}", where=flag, next_step="such as user_id, or tenant,user_id")
    return names


def _checked(rule: Matching, text: str, flag: str) -> str:
    try:
        return rule.check(text)
    except Wrong as wrong:
        raise ConfigError(str(wrong), where=flag) from None
