"""Kafka and Redis accept the settings that the compose file gives them."""

import pytest
from confluent_kafka.admin import (  # type: ignore[attr-defined]  # two of them are public, but not marked so
    AdminClient,
    ConfigResource,
    ResourceType,
)

from enrich.jars import jars
from tests.integration.deploy.started import HOST, Moved, is_healthy, process
from tests.support.waiting import wait_until
from tests.unit.deploy.compose import parse_compose
from tests.unit.deploy.compose_checks import kafka_settings, unknown_kafka_settings
from tests.unit.deploy.installed import read
from tests.unit.deploy.ports import listeners

COMPOSE = parse_compose(read("docker-compose.yml"))


@pytest.fixture(scope="module")
def known_settings(stack):
    """The names of all settings that a broker of the version in the compose file has."""
    admin = AdminClient({"bootstrap.servers": stack.bootstrap_servers})
    (broker,) = admin.list_topics(timeout=60).brokers
    (answer,) = admin.describe_configs([ConfigResource(ResourceType.BROKER, str(broker))]).values()
    return frozenset(answer.result(timeout=60))


def test_every_variable_of_kafka_is_a_setting_of_the_broker(known_settings):
    assert unknown_kafka_settings(COMPOSE, known_settings) == []


@pytest.mark.parametrize("variable", ["KAFKA_LOG_DIRECTORY", "KAFKA_AUTO_CREATE_TOPIC_ENABLE", "KAFKA_NODEID"])
def test_a_variable_of_kafka_that_is_no_setting_is_found(known_settings, variable):
    compose = parse_compose(f"services: {{kafka: {{environment: {{{variable}: x}}}}}}")
    assert len(unknown_kafka_settings(compose, known_settings)) == 1


def test_a_broker_starts_with_the_settings_and_is_found_by_clients_on_both_sides(tmp_path):
    service = COMPOSE.services["kafka"]
    moved = Moved(COMPOSE, "kafka")
    settings = {name: moved.text(value, service) for name, value in kafka_settings(COMPOSE).items()}
    settings["log.dirs"] = str(tmp_path / "data")
    (tmp_path / "server.properties").write_text("".join(f"{key}={value}\n" for key, value in settings.items()))
    java = ["java", "-Xmx512m", "-XX:TieredStopAtLevel=1", "-cp", ":".join(map(str, jars("kafka")))]
    formatting = [*java, "kafka.tools.StorageTool", "format", "-t", "4L6g3nShT-eMCtK--X86sw", "-c", "server.properties"]
    with process(formatting, {}, tmp_path) as formatted:
        assert formatted.wait(timeout=180) == 0, (tmp_path / "output.log").read_text()
    with process([*java, "kafka.Kafka", "server.properties"], {}, tmp_path):
        for _, host, port in listeners(service, "KAFKA_ADVERTISED_LISTENERS"):
            address = f"{HOST}:{moved.port('kafka', port)}"
            (broker,) = (
                AdminClient({"bootstrap.servers": address, "log_level": 0}).list_topics(timeout=180).brokers.values()
            )
            # A client goes on with the address that it is told.
            assert f"{broker.host}:{broker.port}" == address, f"the listener for {host}"


def test_redis_starts_with_its_command_and_is_healthy_only_with_its_password(tmp_path):
    service = COMPOSE.services["redis"]
    (port,) = (Moved(COMPOSE, "redis").port("redis", one.container_port) for one in service.published)
    check = [word.replace("redis-cli", f"redis-cli -p {port}") for word in service.health_check]
    with process([*service.command, "--port", str(port), "--bind", HOST], {}, tmp_path):
        wait_until(lambda: is_healthy(check, service.environment), what="the health of Redis")
        assert not is_healthy(check, {"REDISCLI_AUTH": "another"})
    assert not is_healthy(check, service.environment)
