"""The pipeline's release: a whole number, from the file or the environment; and the column that it needs in a table."""

from typing import Any

import pytest

from enrich.config import load_text
from enrich.config.sections.pipeline import LARGEST_RELEASE
from stores import versions
from tests.unit.config.helpers import HEAD, changed, lines_of, told

DSN = "postgresql://me:secret@db/app"


def release_of(text: str, **environment: str) -> int:
    return load_text(f"{HEAD}\nrelease: {text}\n", environment).release


def problems(release: int, row: str, **target: Any) -> list[str]:
    postgres = {"dsn": DSN, "table": "users", "key": ["id"], **target}
    route = {"topic": "users.v1", "format": "json", "columns": row, "to": {"postgres": postgres}}
    found = told(changed(("sync.writeback", {"out": route}), ("release", release)))
    return [line.removeprefix("sync.writeback.out.to.") for line in found]


def test_it_comes_from_the_file_or_from_the_environment() -> None:
    assert load_text(HEAD, {}).release == 0
    assert release_of("7") == 7
    assert release_of('"${RELEASE}"', RELEASE="12") == 12
    assert release_of('"${RELEASE:-0}"') == 0


@pytest.mark.parametrize("wrong", ["-1", "1.5", '"v7"', "true", str(2**53 + 1)])
def test_it_is_a_whole_number(wrong: str) -> None:
    (problem,) = lines_of(f"{HEAD}\nrelease: {wrong}\n")
    assert "release: expected a whole number" in problem


def test_stores_compare_as_large_ones() -> None:
    assert LARGEST_RELEASE == versions.LARGEST_RELEASE


@pytest.mark.parametrize(
    ("release", "row", "target", "expected"),
    [
        (7, "plan string", {}, None),
        (0, "plan string, release string", {}, None),
        (7, "plan string, release string", {}, "postgres: needs release_column"),
        (7, "plan string", {"columns": {"release": "plan"}}, "postgres: needs release_column"),
        (7, "plan string, release string", {"release_column": "rel"}, None),
        (0, "plan string", {"release_column": "version"}, "postgres.release_column: is also the version_column"),
        (0, "plan string", {"release_column": "deleted"}, "postgres.deleted_column: is also the release_column"),
        (0, "plan string", {"release_column": "id"}, "postgres.release_column: id is a column of the key"),
        (
            0,
            "plan string",
            {"release_column": "rel", "columns": {"rel": "plan"}},
            "postgres.release_column: rel is also one of the columns that the rows fill",
        ),
    ],
)
def test_the_column_of_a_table_is_no_other_one(
    release: int, row: str, target: dict[str, Any], expected: str | None
) -> None:
    found = problems(release, row, **target)
    assert found == [] if expected is None else [line for line in found if expected in line] == found != []


def test_a_row_that_is_kept_in_redis_has_no_column_of_that_name() -> None:
    redis = {
        "topic": "users.v1",
        "format": "json",
        "columns": "_release int",
        "to": {"redis": {"url": "redis://cache"}},
    }
    (problem,) = told(changed(("sync.writeback", {"out": redis})))
    assert "the column _release has the name of what the sync service keeps beside the columns" in problem
