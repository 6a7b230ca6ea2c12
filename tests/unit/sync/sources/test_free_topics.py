"""A table of a source with many gets the topic that its name makes, unless that is for something else."""

import pytest

from enrich.config import Pipeline, load_text
from sync_service.sources.logged.building import free_topic

DSN = "dsn: 'postgresql://h/d'"
PIPELINE = f"""
name: shop
kafka: {{bootstrap_servers: 'h:1'}}
observe: {{}}
ingest: {{orders: {{path: /, topic: orders, format: json}}}}
sync:
  sources:
    bank:
      topic: '{{schema}}.{{table}}'
      format: json
      from: {{postgres: {{{DSN}, tables: ['app.*', 'shop.*'], follow: log}}}}
    users: {{topic: app.users, format: json, from: {{file: {{path: /u.csv, key: [id]}}}}}}
"""


@pytest.fixture(scope="module")
def pipeline() -> Pipeline:
    return load_text(PIPELINE, {})


@pytest.mark.parametrize(
    ("table", "topic"),
    [
        (("app", "plans"), "app.plans"),
        (("app", "users"), None),  # the other source's
        (("shop", "tallies"), None),
        (("shop", "minutes"), None),
        (("shop", "bank.tables"), None),
        (("app", "a b"), None),
    ],
)
def test_each_topic_is_for_one_thing(pipeline: Pipeline, table: tuple[str, str], topic: str | None) -> None:
    assert free_topic(pipeline, "bank", *table) == topic
