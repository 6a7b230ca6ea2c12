"""What is refused before the first event is sent."""

from typing import Any

import pytest

from enrich.admin.rating.ways import way_to_rate
from enrich.base.errors import ConfigError
from enrich.config import load_text

PIPELINE = """
name: films
kafka: {bootstrap_servers: "localhost:9092"}
tallies: true
"""
TABLE = """
tables: {ratings: {topic: films.ratings, columns: "stars int", format: json}}
ingest: {plays: {listen: "127.0.0.1:8080", path: /v1/plays, topic: films.plays, format: json, tokens: [x]}}
"""
STAGE = """
stages: {enrich: {source: {topic_pattern: 'films\\.r.*', format: json, schema: "id string"}, sink: {topic: out}}}
"""
NOTHING: Any = None


@pytest.mark.parametrize(
    ("section", "by"), [(TABLE, "table ratings"), (STAGE, "source of stage enrich")], ids=["table", "pattern"]
)
def test_a_pipeline_is_not_rated_whose_topic_of_ratings_has_something_else(section: str, by: str) -> None:
    pipeline = load_text(PIPELINE + section, {})
    with pytest.raises(ConfigError, match=rf"films\.ratings, which the pipeline uses for something else: {by}"):
        way_to_rate(pipeline, NOTHING, None, None)
