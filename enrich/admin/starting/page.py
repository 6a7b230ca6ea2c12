"""Writes the choices as a configuration file that explains itself, and says which commands come next."""

import json
import re
import shlex
from collections.abc import Iterator
from pathlib import Path

from enrich.admin.starting.choices import STAGE, Choices
from enrich.base.errors import ConfigError
from enrich.config import ConfigProblems, load_text
from enrich.config.messages.words import shortened

VARIABLE = "${BROKERS}"
_WIDTH = 90
# Spark reads these as values, although they look like fields; and words that begin an expression.
_NO_FIELDS = ("case", "cast", "exists", "false", "interval", "not", "null", "true", "user")
_NO_FIELDS_BEGIN = ("current_", "session_", "local")


def page_of(choices: Choices, file: Path) -> str:
    """Raises ConfigError if `enrich config check` would not take the file."""
    text = _page(choices, file)
    variables = dict.fromkeys(re.findall(r"\$\{(\w+)", choices.brokers), "localhost:9092")
    try:
        load_text(text, variables, str(file))
    except ConfigProblems as found:
        problem = found.problems[0]
        raise ConfigError(
            f"the file would not be good: {problem.key or 'its text'}: {problem.message}",
            next_step="choose another value for it",
        ) from None
    return text


def next_commands(choices: Choices, file: Path) -> list[str]:
    """What brings the pipeline to life, in this order."""
    config = f"-c {shlex.quote(str(file))}"
    rows, key = shlex.quote(str(choices.metadata.path)), shlex.quote(",".join(choices.key))
    brokers = ["enrich dev up", "export BROKERS=127.0.0.1:...    # the address that enrich dev up prints"]
    return [
        *(brokers if choices.brokers == VARIABLE else []),
        f"enrich topics apply --yes {config}",
        f"enrich table load {choices.table} {rows} --key {key} --yes {config}",
        f"enrich run {STAGE} {config}",
    ]


def _page(choices: Choices, file: Path) -> str:
    metadata, config = choices.metadata, shlex.quote(shortened(str(file)))
    rows = f"{metadata.rows:,} row{'' if metadata.rows == 1 else 's'} of {shortened(metadata.path.name)}"
    empty = [shortened(column.name) for column in choices.columns if not column.has_values]
    unknown = f"\n    # No row has a value for {', '.join(empty[:5])}: taken as text." if empty else ""
    return f"""\
# Each event of {choices.events} gets its row of {shortened(metadata.path.name)}, and goes to {choices.output}.
# Written by `enrich init`; it is yours now: change it. The pages named here are in the folder docs of enrich.
#   enrich config check -c {config}     is it good? every problem at once, with its line
#   enrich config show -c {config}      what it means, with all defaults; every key: docs/configuration.md

# A part of the names of folders, transactions and consumer groups: under another name the pipeline begins anew.
name: {_word(choices.name)}

{_brokers(choices)}

# The folder for this host's copy of the tables, as seen from where you run the commands. It may be deleted at any time:
# the copy is then made again.
state_dir: ./state

# Metadata. A table is a compacted topic: the newest record of a key is its row. Every host with executors keeps all
# rows locally, so that no event waits for the network: docs/local-store.md
tables:
  {_word(choices.table)}:
    topic: {_word(choices.rows)}{_kind(choices)}
    format: json                # a record's value: one object with the columns. Or avro, string, bytes: docs/formats.md
    # Guessed from the {rows}; correct what you know better: a record that does not fit
    # its column is never joined, `enrich quarantine list` shows it. Types: docs/configuration.md#columns{unknown}
    columns: {_columns(choices)}
    # history: 1h               # keep older versions, to join the row as it was at the time of the event (as_of)
    # freshness: {{bound: 5s, on_stale: wait}}    # how old an answer may be, and what happens when it is older

# A stage is a Spark job: it reads events, joins them, and writes them on. The guide: docs/stages.md
stages:
  {STAGE}:
    source:
      topic: {_word(choices.events)}
      format: json
      # Only the fields that this file uses. All others pass through as they are, byte for byte.
      schema: {_quoted(_schema(choices))}
    lookups:
      - table: {_word(choices.table)}
        key: {_key(choices)}
        as: {_word(choices.object)}
        # Without a row the object is null. Or: drop, dlq, default, wait, fail (docs/stages.md, "Choose what happens")
        on_miss: null
        # select: [...]         # not all columns of the row
    # The enriched events, with the key and the headers that they came with.
    sink: {{topic: {_word(choices.output)}, format: json}}
    # Events that cannot be processed, with the reason: `enrich dlq list` shows them, `enrich dlq replay` repeats them.
    dlq: {_word(choices.dead)}
    # lineage: true             # adds _lineage: which record of the table answered, and how fresh it was
    # replay: deterministic     # a batch that is repeated gives the same bytes
    # Where the stage goes on after a restart. On a cluster: a path that all hosts see.
    checkpoint: {_quoted(f"./checkpoints/{choices.name}/{STAGE}")}
"""


def _brokers(choices: Choices) -> str:
    if choices.brokers == VARIABLE:
        about = "The address of the brokers comes from the environment: export BROKERS=host:9092"
    else:
        about = 'The brokers to ask first. "${BROKERS}" would take them from the environment'
    servers = json.dumps(choices.brokers, ensure_ascii=False)  # may have variables
    return f"# {about}. Logins: docs/configuration.md#kafka\nkafka:\n  bootstrap_servers: {servers}"


def _kind(choices: Choices) -> str:
    if not choices.is_cidr:
        return ""
    return "\n    key: cidr                   # keys are networks: an address finds the longest one that holds it"


def _columns(choices: Choices) -> str:
    parts = [f"{_column(column.name)} {column.type}" for column in choices.columns]
    line = _quoted(", ".join(parts))
    if len(line) <= _WIDTH:
        return line
    # One a line: a folded text, in which nothing but `${` has a meaning.
    return ">-\n      " + ",\n      ".join(part.replace("${", "$${") for part in parts)


def _schema(choices: Choices) -> str:
    fields = [(field.split("."), choices.type_of(index)) for index, field in enumerate(choices.fields)]
    return ", ".join(f"{_column(name)} {kind}" for name, kind in _typed(fields))


def _typed(fields: list[tuple[list[str], str]]) -> Iterator[tuple[str, str]]:
    """Fields inside others as Spark writes them: `device struct<id:string>`."""
    inner: dict[str, list[tuple[list[str], str]]] = {}
    for (name, *below), kind in fields:
        inner.setdefault(name, []).append((below, kind))
    for name, parts in inner.items():
        if parts[0][0]:
            members = ",".join(f"{_column(one)}:{kind}" for one, kind in _typed(parts))
            yield name, f"struct<{members}>"
        else:
            yield name, parts[0][1]


def _key(choices: Choices) -> str:
    keys = [".".join(map(_column, field.split("."))) if "." in field else _field(field) for field in choices.fields]
    return _word(keys[0]) if len(keys) == 1 else f"[{', '.join(_quoted(key) for key in keys)}]"


def _field(name: str) -> str:
    is_field = name.lower() not in _NO_FIELDS and not name.lower().startswith(_NO_FIELDS_BEGIN)
    return _column(name) if is_field else f"`{name}`"


def _column(name: str) -> str:
    is_plain = re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name) and name.lower() != "not"
    return name if is_plain else "`" + name.replace("`", "``") + "`"


def _word(text: str) -> str:
    """As YAML reads it as this text: not as a number, a time or a truth value."""
    is_plain = re.fullmatch(r"[A-Za-z_][A-Za-z0-9_.-]*", text) and text.lower() not in ("true", "false", "null")
    return text if is_plain else _quoted(text)


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False).replace("${", "$${")
