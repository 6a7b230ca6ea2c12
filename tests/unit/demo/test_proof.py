"""The demo's last line is true only if every single origin came out."""

from contextlib import contextmanager

import pytest
from typer.testing import CliRunner

from enrich.cli.main import app
from enrich.demo import Chapter, Proof
from enrich.demo.places import Places


def places(*origins):
    found = Places()
    found.add(origins)
    return found


def proof(**changed):
    given = {
        "acknowledged": places("plays.raw/0/0", "plays.raw/0/1", "plays.raw/1/0"),
        "written": 4,
        "delivered": {
            "acme": Places.of_ranges({"plays.raw/0": [(0, 0)], "plays.raw/1": [(0, 5)]}),
            "globex": places("plays.raw/0/0", "plays.raw/1/0"),
        },
        "dead": places("plays.raw/0/1"),
        "repeated": {"acme": 2, "globex": 0},
    }
    return Proof(**{**given, **changed})


def test_origins_in_are_origins_out_if_each_is_delivered_or_a_dead_letter():
    assert proof().holds
    facts = proof().facts()
    assert (facts["lost"], facts["written_twice"], facts["duplicates"]) == (
        {"acme": 0, "globex": 0},
        1,
        {"acme": 2, "globex": 0},
    )
    assert "3 origins in = 2 at acme and 2 at globex + 1 dead letters" in proof().told()


@pytest.mark.parametrize(
    ("customer", "delivered", "missing"),
    [
        ("globex", places("plays.raw/0/0"), ["plays.raw/1/0"]),
        # As many as there should be, and another one than it should be.
        ("acme", places("plays.raw/0/0", "plays.raw/1/1"), ["plays.raw/1/0"]),
        ("acme", places("plays.enriched/0/0", "plays.raw/1/0"), ["plays.raw/0/0"]),
        ("acme", places(), ["plays.raw/0/0", "plays.raw/1/0"]),
    ],
)
def test_a_lost_one_is_named_whatever_else_was_delivered(customer, delivered, missing):
    broken = proof(delivered={**proof().delivered, customer: delivered})
    assert not broken.holds
    assert list(broken.lost[customer]) == missing
    assert broken.facts()["lost_origins"][customer] == missing
    assert all(f"{customer} {origin}" in broken.told() for origin in missing)


@pytest.mark.parametrize(("holds", "code"), [(True, 0), (False, 1)])
@pytest.mark.parametrize("words", [["--json"], []])
def test_the_command_exits_with_1_if_something_was_lost(monkeypatch, holds, code, words):
    @contextmanager
    def no_world(**_):
        yield None

    chapters = [Chapter("end", "title", "result", {}, holds=holds), Chapter("after", "title", "result", {})]
    monkeypatch.setattr("enrich.demo.demo_world", no_world)
    monkeypatch.setattr("enrich.demo.tell_story", lambda *_: iter(chapters))
    monkeypatch.setattr("enrich.cli.demo_screen.figures_line", lambda _: "")
    assert CliRunner().invoke(app, ["demo", *words]).exit_code == code
