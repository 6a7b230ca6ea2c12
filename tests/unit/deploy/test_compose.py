"""docker-compose.yml names only what exists: commands, variables, ports, files, services."""

import pytest

from enrich.config import load_text
from tests.unit.deploy.compose import parse_compose, parse_unfilled
from tests.unit.deploy.compose_checks import CHECKS, kafka_settings, password_problems, unknown_kafka_settings
from tests.unit.deploy.installed import read
from tests.unit.deploy.ports import address_problems, listener_problems, listening, port_of, port_problems

TEXT = read("docker-compose.yml")
ALL_CHECKS = (*CHECKS, port_problems)


def problems(text):
    compose = parse_compose(text)
    return [problem for check in ALL_CHECKS for problem in check(compose)]


def changed(old, new):
    assert old in TEXT
    return TEXT.replace(old, new)


@pytest.mark.parametrize("check", ALL_CHECKS, ids=lambda check: check.__name__)
def test_the_file_holds_nothing_that_does_not_exist(check):
    assert check(parse_compose(TEXT)) == []


def test_its_services_are_the_ones_that_the_product_works_with():
    services = {"kafka", "redis", "postgres", "spark-master", "spark-worker", "sync", "prometheus", "grafana"}
    services |= {"topics", "ingest", "expel", "retrier", "observer", "receiver"}
    assert parse_compose(TEXT).services.keys() == services


def test_every_service_starts_without_being_asked_for():
    assert [name for name, service in parse_compose(TEXT).services.items() if service.raw.get("profiles")] == []


def test_the_file_of_the_sync_service_is_a_good_one_with_addresses_that_are_listened_on():
    text = read("deploy/sync/sync.yaml")
    pipeline = load_text(text, {"REDIS_PASSWORD": "x"})
    assert pipeline.sync is not None and pipeline.sync.writeback
    compose = parse_compose(TEXT)
    named = [pipeline.kafka.bootstrap_servers]
    named += [route.to.redis.url.get_secret_value() for route in pipeline.sync.writeback.values() if route.to.redis]
    assert [problem for one in named for problem in address_problems(compose, one.split("@")[-1], "sync.yaml")] == []


def test_the_file_of_the_edges_is_a_good_one_with_addresses_that_are_listened_on():
    variables = dict.fromkeys(("INGEST_TOKEN", "EXPEL_TOKEN", "OBSERVER_TOKEN"), "for-development-only")
    pipeline = load_text(read("deploy/edge/edge.yaml"), variables)
    assert pipeline.ingest and pipeline.expel
    compose = parse_compose(TEXT)
    assert all(compose.services[role].environment == variables for role in ("ingest", "expel", "retrier", "topics"))
    observer = load_text(read("deploy/edge/edge.yaml"), compose.services["observer"].environment)
    named = [pipeline.kafka.bootstrap_servers, observer.pages.ingest, observer.pages.expel, observer.pages.retrier]
    named += [route.to.http.url.get_secret_value() for route in pipeline.expel.values()]
    assert all(port_of(page) in listening(compose.services[role]) for role, page in dict(observer.pages).items())
    assert [problem for one in named for problem in address_problems(compose, one, "edge.yaml")] == []


def test_what_holds_no_state_may_be_killed_and_what_commits_is_waited_for():
    for name in ("sync", "ingest", "expel", "retrier", "observer"):
        for wrong in (f"  {name}:\n    <<: *enrich\n    stop_grace_period: 20s\n", f"  {name}:\n    <<: *enrich\n"):
            start = TEXT.index(f"\n  {name}:\n") + 1
            end = TEXT.index("    stop_grace_period: 40s\n", start)
            changed_text = TEXT[:start] + wrong + TEXT[end:].replace("    stop_grace_period: 40s\n", "", 1)
            assert f"{name}: is killed before it has ended" in problems(changed_text)


@pytest.mark.parametrize(
    ("old", "new", "problem"),
    [
        ("master.Master", "master.Mister", "spark-master: no such class in Spark's jars"),
        ("--webui-port", "--web-port", "does not know the option --web-port"),
        ("spark-class", "spark-klass", "spark-worker: no such program in the image: spark-klass"),
        ("      - spark-class\n", "      - pytest\n", "no such program in the image: pytest"),
        ('"-m", "sync_service"', '"-m", "sync_servant"', "sync: no such module: sync_servant"),
        ('"-m", "edge_service"', '"-m", "edges"', "ingest: no such module: edges"),
        ('"-m", "sync_service"', '"-m", "stores"', "sync: not a module that can be run: stores"),
        (
            '["python", "-m", "sync_service", "--config", "/etc/enrich/sync.yaml"]',
            "python -m sync_service",
            "sync: not in exec form",
        ),
        ('"topics", "apply"', '"topics", "make"', "topics: topics has no command make"),
        ('"--yes"]', '"--sure"]', "topics: apply has no option --sure"),
        ("import json, sys", "import jason, sys", "health check: no such module: jason"),
        ("sys.exit(not ", "sys.exit(not not(", "spark-worker: health check: not Python"),
    ],
)
def test_a_command_of_ours_that_does_not_exist_is_found(old, new, problem):
    assert any(problem in found for found in problems(changed(old, new)))


@pytest.mark.parametrize(
    ("old", "new", "problem"),
    [
        ("SPARK_WORKER_CORES: ", "SPARK_WORKER_CORE: ", "spark-worker: nobody reads SPARK_WORKER_CORE"),
        ("SPARK_PUBLIC_DNS: ", "ENRICH_PUBLIC_DNS: ", "spark-worker: nobody reads ENRICH_PUBLIC_DNS"),
        ("POSTGRES_DB: ", "POSTGRES_DATABASE: ", "postgres: nobody reads POSTGRES_DATABASE"),
        ("rest.enabled", "rest.enable", "spark-master: Spark does not know the setting spark.master.rest.enable"),
    ],
)
def test_a_variable_that_nobody_reads_is_found(old, new, problem):
    assert problem in problems(changed(old, new))


@pytest.mark.parametrize(
    ("old", "new", "problem"),
    [
        (
            "spark://spark-master:7077",
            "spark://spark-master:7078",
            "spark-worker: spark-master does not listen on 7078",
        ),
        ("spark://spark-master:7077", "spark://spark:7077", "spark-worker: no service is called spark"),
        ("127.0.0.1:8081/json", "127.0.0.1:8080/json", "spark-worker: spark-worker does not listen on 8080"),
        ('kafka:19092"]', 'kafka:9093"]', "kafka: kafka does not listen on 9093"),
        ("127.0.0.1:8080:8080", "127.0.0.1:8080:8000", "spark-master: publishes 8000, where nothing listens"),
        ("127.0.0.1:5432:5432", "5432:5432", "postgres: port 5432 is open to other machines"),
        ("127.0.0.1:8088:8088", "127.0.0.1:8088:8080", "ingest: publishes 8080, where nothing listens"),
        ("127.0.0.1:9402:9402", "127.0.0.1:9403:9403", "expel: publishes 9403, where nothing listens"),
        ("127.0.0.1:9403/healthz", "127.0.0.1:9401/healthz", "retrier: retrier does not listen on 9401"),
        ("127.0.0.1:3000:3000", "127.0.0.1:9090:3000", "grafana: port 9090 is published by prometheus already"),
    ],
)
def test_a_port_where_nobody_listens_is_found(old, new, problem):
    assert problem in problems(changed(old, new))


@pytest.mark.parametrize(
    ("old", "new", "problem"),
    [
        ("./deploy/prometheus/", "./deploy/prom/", "no such file or folder: ./deploy/prom/prometheus.yml"),
        ("prometheus.yml:ro", "prometheus.yml", "can be written by the container"),
        ("- grafana-data:", "- graphana-data:", "grafana: no such volume: graphana-data"),
        ('volumes: ["redis-data:/data"]', "networks: [back]", "redis: no such network: back"),
        ('volumes: ["redis-data:/data"]', "restart: no", "the volume redis-data is not used"),
        ("healthcheck:", "health_check:", "kafka: no such setting: health_check"),
        ("interval:", "every:", "redis: no such setting of a health check: every"),
        ("\nvolumes:", "\nvolume:", "no such setting: volume"),
        ("build: .", "build: ./image", "sync: no Dockerfile in ./image"),
        ("healthcheck:", "health_check:", "kafka: no health check"),
        ("healthcheck:", "health_check:", "spark-worker: waits for the health of spark-master, which has no health"),
        ("      postgres: {", "      mysql: {", "sync: depends on mysql, which is no service"),
        ("{condition: service_healthy}", "{condition: healthy}", "grafana: no such condition: healthy"),
    ],
)
def test_a_name_that_leads_nowhere_is_found(old, new, problem):
    assert any(problem in found for found in problems(changed(old, new)))


@pytest.mark.parametrize(
    ("old", "new", "problem"),
    [
        ("grafana:13.2.1", "grafana:latest", "grafana: the image is not pinned: grafana/grafana:latest"),
        ("grafana:13.2.1", "grafana", "grafana: the image is not pinned: grafana/grafana"),
        ("postgres:18.4-alpine", "postgres:18", "postgres: the image is not pinned: postgres:18"),
        ("apache/kafka:4.3.1", "apache/kafka:4.0.0", "kafka: apache/kafka:4.0.0 should be version 4.3.1"),
        ("enrich:0.1.0", "enrich:0.0.9", "sync: enrich:0.0.9 should be version 0.1.0"),
    ],
)
def test_an_image_that_is_not_pinned_to_the_version_tested_is_found(old, new, problem):
    assert any(problem in found for found in problems(changed(old, new)))


def test_passwords_come_from_the_environment_and_their_defaults_say_what_they_are_for():
    assert password_problems(parse_unfilled(TEXT)) == []


@pytest.mark.parametrize("new", ["hunter2", "${REDIS_PASSWORD}", "${REDIS_PASSWORD:-hunter2}"])
@pytest.mark.parametrize("name", ["REDIS", "POSTGRES", "GRAFANA"])
def test_a_password_that_could_be_kept_by_mistake_is_found(name, new):
    text = changed(f"${{{name}_PASSWORD:-for-development-only}}", new)
    assert password_problems(parse_unfilled(text))


def test_a_variable_that_is_set_takes_the_place_of_its_default():
    services = parse_compose(TEXT, {"REDIS_PASSWORD": "s3cret", "SPARK_WORKER_CORES": "8"}).services
    assert services["redis"].command[-1] == "s3cret"
    assert services["redis"].environment["REDISCLI_AUTH"] == "s3cret"
    assert services["spark-worker"].environment["SPARK_WORKER_CORES"] == "8"
    assert services["spark-worker"].environment["SPARK_WORKER_MEMORY"] == "2g"


def test_every_address_that_kafka_advertises_leads_back_to_its_listener():
    assert listener_problems(parse_compose(TEXT).services["kafka"]) == []


@pytest.mark.parametrize(
    ("old", "new", "problem"),
    [
        ("HOST://localhost:9092", "HOST://localhost:9093", "localhost:9093 does not lead to the listener HOST on 9092"),
        ("127.0.0.1:9092:9092", "127.0.0.1:9093:9092", "localhost:9092 does not lead to the listener HOST on 9092"),
        ("CONTAINERS://kafka:19092", "CONTAINERS://broker:19092", "broker:19092 does not lead to the listener"),
        (",HOST://localhost", ",HOSTS://localhost", "the advertised listener HOSTS is none"),
        (",HOST:PLAINTEXT", "", "the listener HOST has no security protocol"),
    ],
)
def test_an_address_of_kafka_that_leads_elsewhere_is_found(old, new, problem):
    found = listener_problems(parse_compose(changed(old, new)).services["kafka"])
    assert any(problem in one for one in found)


def test_variables_of_kafka_become_settings_as_its_image_reads_them():
    text = "services: {kafka: {environment: {CLUSTER_ID: x, KAFKA_LOG_DIRS: /d, KAFKA_A_B__C___D: '1'}}}"
    assert kafka_settings(parse_compose(text)) == {"log.dirs": "/d", "a.b_c-d": "1"}


def test_a_setting_that_the_broker_does_not_have_is_found():
    text = "services: {kafka: {environment: {KAFKA_NODE_ID: '1', KAFKA_LOG_DIR: /d}}}"
    assert unknown_kafka_settings(parse_compose(text), {"node.id", "log.dirs"}) == [
        "kafka: the broker has no setting log.dir"
    ]
