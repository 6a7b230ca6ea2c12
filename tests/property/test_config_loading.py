"""The loader against anything: a pipeline or a ConfigError, nothing else; and a shown pipeline loads as itself."""

import json
import random
from pathlib import Path
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from enrich.base.errors import ConfigError
from enrich.config import Pipeline, load_text
from enrich.config.json_schema import json_schema
from enrich.config.show import as_yaml
from enrich.config.wire import from_wire, to_wire
from tests.support.seed import rounds

EXAMPLE = (Path(__file__).parents[2] / "examples" / "plays.yaml").read_text()
PIECES = [
    "&a", " *a", "<<: *a", "!!python/object:os.system ", "!x ", "${X}", "${", "}", "$${", "- ", "? ", ": ", "[", "]",
    "{", "|\n", ">\n", "'", '"', "\t", "\n", "\r", "\0", "\x85", "\u2028", "\ufeff", "é", "😀", "null", "~", ".inf",
    "0x", "1e400", "%YAML 1.1\n", "---\n", "...\n", "#", "@", "`", "\\x", '"\\U99999999"', "a: 1\n", "name: b\n",
]  # fmt: skip
LINES = EXAMPLE.splitlines()


def _load(text: str) -> Pipeline | None:
    try:
        return load_text(text, {"X": "v"})
    except ConfigError as error:
        assert str(error)
        return None


@given(st.one_of(st.text(), st.lists(st.sampled_from(PIECES)).map("".join)))
def test_any_text_is_a_pipeline_or_a_config_error(text: str) -> None:
    _load(text)


@settings(max_examples=rounds(60, 5_000))
@given(st.randoms(use_true_random=False))
def test_a_damaged_file_is_a_pipeline_or_a_config_error(source: random.Random) -> None:
    text = EXAMPLE
    for _ in range(source.randint(1, 4)):
        at = source.randrange(len(text))
        match source.randrange(4):
            case 0:
                text = text[:at] + source.choice(PIECES) + text[at + source.randint(0, 5) :]
            case 1:
                text = text[:at] + text[at + source.randint(1, 60) :]
            case 2:
                text = text.replace(source.choice(LINES), source.choice(LINES), 1)
            case _:
                text = "\n".join([*text.splitlines()[: source.randint(1, 40)], source.choice(LINES)])
        text = text or "x"
    _load(text)


KEYS = sorted({key for schema in json_schema()["$defs"].values() for key in schema.get("properties", {})})
LEAVES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    st.text(max_size=5),
    st.sampled_from(
        ["json", "avro", "5s", "2GiB", "a int", "users", "a:1", "null", "default", "cidr", "redis://u:p@h"]
    ),
)
TREES = st.recursive(
    LEAVES,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.dictionaries(st.sampled_from([*KEYS, "users", "x"]), inner, max_size=5),
    ),
    max_leaves=10,
)


@settings(max_examples=rounds(60, 5_000))
@given(st.data())
def test_any_tree_in_the_place_of_any_value_is_a_pipeline_or_a_config_error(data: st.DataObject) -> None:
    tree = json.loads(json.dumps(data.draw(st.just(_tree()))))
    for _ in range(data.draw(st.integers(1, 3))):
        holder, key = data.draw(st.sampled_from(_places(tree)))
        holder[key] = data.draw(TREES)
    pipeline = _load(json.dumps(tree, allow_nan=False) if _finite(tree) else str(tree))
    if pipeline is not None:
        assert from_wire(to_wire(pipeline)) == pipeline


def _tree() -> Any:
    return {
        "name": "plays",
        "kafka": {"bootstrap_servers": "a:1", "client": {"linger.ms": 5}},
        "memory": {"budget": "2GiB"},
        "tables": {
            "users": {"topic": "users.v1", "format": "json", "columns": "plan string, rps int", "freshness": {}},
            "limits": {"loader": {"redis": "redis://h"}, "format": "string"},
        },
        "stages": {
            "s": {
                "source": {"topic": "a", "format": "json", "schema": "id string, ts timestamp"},
                "lookups": [{"table": "users", "key": ["id"], "as": "user", "select": ["plan"]}],
                "sink": {"topic": "b"},
            }
        },
    }


def _places(tree: Any) -> list[tuple[Any, Any]]:
    """Every place where a value stands, and one new key in each mapping."""
    steps = list(tree) if isinstance(tree, dict) else range(len(tree)) if isinstance(tree, list) else ()
    here = [(tree, step) for step in steps] + ([(tree, "x")] if isinstance(tree, dict) else [])
    return here + [place for step in steps for place in _places(tree[step])]


def _finite(tree: Any) -> bool:
    try:
        json.dumps(tree, allow_nan=False)
    except ValueError:
        return False
    return True


def test_a_shown_pipeline_loads_as_itself() -> None:
    pipeline = load_text(EXAMPLE, {})
    assert load_text(as_yaml(pipeline), {}) == pipeline


@given(st.text(st.characters(codec="utf-8"), min_size=1), st.sampled_from(["1s", "0", "90m"]))
def test_a_shown_pipeline_loads_as_itself_whatever_its_texts(text: str, history: str) -> None:
    tree = _tree()
    tree["stages"]["s"]["lookups"][0]["key"] = [f"lower({text})", "id"]
    tree["tables"]["users"]["history"] = history
    pipeline = _load(json.dumps(tree).replace("${", "$${"))
    if pipeline is not None:
        assert load_text(as_yaml(pipeline), {}) == pipeline
