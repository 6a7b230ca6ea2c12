import json

import pytest

from enrich.base.errors import ConfigError
from enrich.cli.services.statuses import loaded_with
from tests.support.commands import enrich, lines
from tests.support.servers.scripted_endpoint import ScriptedEndpoint, answers
from tests.unit.config.helpers import HEAD


@pytest.mark.parametrize("section", ["ingest", "expel", "sync", "observe"])
def test_of_a_section_that_is_not_there_nobody_is_asked(tmp_path, section):
    file = tmp_path / "pipeline.yaml"
    file.write_text("name: plays\nkafka: {bootstrap_servers: 'localhost:1'}\n")
    with pytest.raises(ConfigError, match=f"has no section `{section}`") as caught:
        loaded_with(section, file)
    assert caught.value.where == str(file)


def status_of_expel(tmp_path, code, answer):
    """Of the pipeline `plays`, when this is what its page's address answers."""
    file = tmp_path / "pipeline.yaml"
    with ScriptedEndpoint(answers(code, answer)) as endpoint:
        file.write_text(
            f"{HEAD}pages: {{expel: '127.0.0.1:{endpoint.port}'}}\n"
            "expel: {acme: {topic: t, to: {http: {url: 'https://acme.example/'}}}}\n"
        )
        return f"127.0.0.1:{endpoint.port}", enrich("expel", "status", "-c", file, "--json")


def test_routes_are_those_of_the_pipelines_own_program(tmp_path):
    said = {"pipeline": "plays", "routes": [{"name": "acme", "kind": "expel", "state": "running"}]}
    _, done = status_of_expel(tmp_path, 200, json.dumps(said).encode())
    assert (done.returncode, lines(done)) == (0, said["routes"])


@pytest.mark.parametrize(
    ("code", "answer", "told"),
    [
        (200, b'{"pipeline": "other", "routes": [{"name": "acme", "state": "running"}]}', "of the pipeline 'other'"),
        (200, b'{"routes": [{"name": "acme", "state": "running"}]}', "no status of a pipeline"),
        (200, b'{"pipeline": "plays"}', "names no routes"),
        (200, b'{"pipeline": "plays", "routes": [1]}', "names no routes"),
        (
            200,
            b'{"pipeline": "plays", "routes": [{"name": "a", "kind": "ingest", "state": "running"}]}',
            "it is ingest",
        ),
        (
            200,
            b'{"pipeline": "plays", "routes": [{"name": "a", "kind": "retry", "state": "running"}]}',
            "it is retrier",
        ),
        (200, b'{"pipeline": "plays", "routes": [{"name": "a", "kind": "source", "state": "running"}]}', "it is sync"),
        (200, b"[1]", "no status of a pipeline"),
        (200, b"<html>", "no status of a pipeline"),
        (404, b'{"detail": "Not Found"}', "HTTP 404"),
        (503, b'{"pipeline": "plays", "routes": []}', "HTTP 503"),
    ],
)
def test_another_program_at_the_address_is_not_taken_for_ones_own(tmp_path, code, answer, told):
    address, done = status_of_expel(tmp_path, code, answer)
    assert (done.returncode, done.stdout) == (3, "")
    assert told in done.stderr and address in done.stderr and "pages.expel" in done.stderr
