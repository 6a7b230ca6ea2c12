"""docs/deployment.md says what the compose file does."""

import re
import shlex

from tests.unit.deploy.commands import command_problems
from tests.unit.deploy.compose import parse_compose, variables
from tests.unit.deploy.installed import pyspark_folder, read
from tests.unit.deploy.ports import address_problems

PAGE = read("docs/deployment.md")
COMPOSE_TEXT = read("docker-compose.yml")
COMPOSE = parse_compose(COMPOSE_TEXT)
ROWS = [[cell.strip() for cell in line.strip("|").split("|")] for line in PAGE.splitlines() if line.startswith("| `")]
SERVICES = {row[0].strip("`"): row for row in ROWS if len(row) == 4}


def test_it_lists_every_service_and_no_other():
    assert SERVICES.keys() == COMPOSE.services.keys()


def test_it_names_the_ports_that_are_open_on_this_machine():
    said = {name: [int(port) for port in re.findall(r"localhost:(\d+)", row[1])] for name, row in SERVICES.items()}
    assert said == {name: [one.port for one in service.published] for name, service in COMPOSE.services.items()}


def test_the_addresses_that_it_names_for_containers_are_listened_on():
    addresses = [row[2].strip("`") for row in SERVICES.values() if row[2]]
    assert addresses
    assert [problem for one in addresses for problem in address_problems(COMPOSE, one, "page")] == []


def test_it_lists_every_variable_with_its_default():
    said = {row[0].strip("`"): row[1].strip("`") for row in ROWS if len(row) == 3}
    assert said.keys() == variables(COMPOSE_TEXT)
    assert [name for name, default in said.items() if f"${{{name}:-{default}}}" not in COMPOSE_TEXT] == []


def test_the_commands_that_it_shows_exist():
    commands = [line for line in PAGE.splitlines() if line.startswith("    docker compose exec ")]
    assert commands
    for line in commands:
        service, *words = shlex.split(line)[3:]
        assert COMPOSE.services[service].is_ours
        assert command_problems(words) == []
        script = words[-1].partition("/site-packages/pyspark/")[2]
        assert script
        assert (pyspark_folder() / script).is_file()


def test_it_names_the_image_by_its_version():
    assert set(re.findall(r"\benrich:[\d.]*\d", PAGE)) == {COMPOSE.services["sync"].image}
