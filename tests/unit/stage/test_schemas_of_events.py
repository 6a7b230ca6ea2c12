"""Which schema masked events of any topic are read by, when the registry does not answer as usual."""

import json
from typing import Any

import pytest

from enrich.base.errors import BadRecord, ConfigError
from enrich.codecs import CachedSchemas
from enrich.stage.steps import reading

SCHEMA = json.dumps({"type": "record", "name": "Play", "fields": [{"name": "id", "type": "long"}]})
NO_COLUMNS = json.dumps("string")


class Registry:
    def __init__(self, *answers: str | Exception) -> None:
        self.answers = list(answers)

    def get(self, schema_id: int) -> str:  # noqa: ARG002 - one schema
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer


@pytest.fixture
def answering(monkeypatch: pytest.MonkeyPatch) -> Any:
    def answer(*answers: str | Exception) -> Registry:
        registry = Registry(*answers)
        schemas = CachedSchemas(registry)
        monkeypatch.setattr(reading, "_agent_schemas", lambda _: schemas)
        return registry

    return answer


def test_an_id_that_is_registered_later_is_known_then_and_asked_for_no_more(answering):
    registry = answering(BadRecord("schema id 7 is not registered"), SCHEMA)
    assert [reading._schema("", 7) for _ in range(3)] == [None, SCHEMA, SCHEMA]
    assert registry.answers == []


def test_a_registry_that_refuses_fails_the_batch_and_no_event(answering):
    answering(ConfigError("the registry refuses the password"), SCHEMA)
    with pytest.raises(ConfigError, match="refuses"):
        reading._schema("", 7)
    assert reading._schema("", 7) == SCHEMA


def test_a_schema_without_columns_is_none_of_events(answering):
    answering(NO_COLUMNS)
    assert reading._schema("", 7) is None
