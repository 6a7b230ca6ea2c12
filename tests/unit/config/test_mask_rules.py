"""Which mask a column has, and what is wrong with a section `masks`."""

from typing import Any

import pytest

from enrich.config import Classification, Masking
from tests.unit.config.helpers import GOOD, changed, load_data, told

KEY = "0123456789abcdef"
MASKS = {
    "key": KEY,
    "tags": {"personal": "hmac"},
    "app.*": {"id": "null", "*_at": "show"},
    "cdc.app.users": {"id": "show", "email": "personal"},
    "app.users": {"email": "redact", "na?e": "partial", "name": "null", "_key": "show"},
    "plays.*": {"*": "show"},
}


def classes_of(**sections: Any) -> Classification:
    found = Classification.of_pipeline(load_data({**GOOD, "masks": MASKS, **sections}))
    assert found is not None
    return found


def problems(masks: dict[str, Any]) -> list[str]:
    return [
        line.removeprefix("masks.")
        for line in told(changed(("masks", {"key": KEY, "plays.*": {"*": "show"}, **masks})))
    ]


@pytest.mark.parametrize(
    ("topic", "column", "masking", "by"),
    [
        ("cdc.app.users", "id", "show", "cdc.app.users.id"),
        ("cdc.app.users", "email", "hmac", "cdc.app.users.email"),
        ("cdc.app.users", "name", "null", "app.users.name"),
        ("cdc.app.users", "nape", "partial", "app.users.na?e"),
        ("cdc.app.users", "seen_at", "show", "app.*.*_at"),
        ("cdc.app.users", "Email", "withhold", None),
        ("cdc.app.users", "_key", "withhold", None),
        ("other.app.users", "email", "redact", "app.users.email"),
        ("app.users", "email", "redact", "app.users.email"),
        ("app.users.v1", "email", "withhold", None),
        ("cdc.app.cards", "id", "null", "app.*.id"),
        ("application", "id", "withhold", None),
        ("users", "email", "withhold", None),
    ],
)
def test_the_most_exact_entry_that_knows_a_column_decides(topic, column, masking, by):
    classes = classes_of()
    found = classes.of(topic).of(column)
    assert (found.masking, found.by) == (Masking(masking), by)


def test_keys_are_hashed_unless_an_entry_says_something_else():
    classes = classes_of()
    assert classes.of("cdc.app.users").of_key.masking is Masking.show
    # A pattern for columns is none for the key.
    assert classes.of("plays.raw").of_key.masking is Masking.hmac


def test_a_topic_goes_by_the_name_of_the_table_that_a_source_makes_it_of():
    source: dict[str, Any] = {"topic": "users.v1", "format": "json"}
    source["from"] = {"postgres": {"dsn": "postgresql://h", "table": "app.users", "key": ["id"]}}
    classes = classes_of(sync={"sources": {"users": source}})
    assert classes.of("users.v1").of("email").by == "app.users.email"


WRONG = [
    ({"app.users": {"id": "shwo"}}, "app.users.id: there is no mask or tag shwo; did you mean show?"),
    (
        {"app.users": {"_key": "redact"}},
        "app.users._key: expected show, withhold or hmac for the key of records, got redact",
    ),
    (
        {"app.users": "show"},
        "app.users: expected columns with their masks, such as {id: show, email: hmac}, got show",
    ),
    (
        {"app users": {"id": "show"}},
        "app users: expected a topic or table, or a pattern such as app.* of letters, digits and . _ - * ?",
    ),
    ({"tags": {"hmac": "show"}}, "tags.hmac: hmac is a mask: choose another word"),
    ({"key": "short"}, "key: expected a secret of at least 16 characters, in quotes if it looks like a number"),
    ({"default": "hide"}, "default: expected show, withhold, null, redact, partial or hmac, got hide"),
    (
        {"plays.raw": {"ts": "hmac"}},
        "stages.enrich.source.schema: the mask hmac makes text of ts, which is a timestamp here",
    ),
]


@pytest.mark.parametrize(("masks", "message"), WRONG)
def test_what_is_wrong_is_told_with_its_place(masks, message):
    assert problems(masks) == [message]


def test_yaml_s_null_is_the_mask_of_that_name():
    masks = {"key": KEY, "plays.*": {"*": None}}
    assert classes_of(masks=masks).of("plays.raw").of("x").masking is Masking.null


def test_the_key_is_shown_to_nobody():
    pipeline = load_data({**GOOD, "masks": MASKS})
    assert KEY not in repr(pipeline)
