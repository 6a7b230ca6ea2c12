"""Passwords reach the drivers and nobody else: not an error, a repr, `config show` or a log."""

import json
import pickle
import traceback

import pytest

from enrich.base.errors import ConfigError
from enrich.config import ConfigProblems, Pipeline, load_text, mask
from enrich.config.show import as_data, as_yaml
from enrich.config.wire import from_wire, to_wire
from enrich.stage.spark.profiles import stage_settings

SECRET = "hunter2"  # noqa: S105 - nobody's

TEXT = """\
name: plays
kafka:
  bootstrap_servers: localhost:9092
  security: {protocol: SASL_SSL, mechanism: PLAIN, username: alice, password: "${PW}"}
  registry: {url: "https://bob:${PW}@registry:8081/x", username: carol, password: "${PW}"}
tables:
  a: {loader: {redis: "redis://dave:${PW}@h:6379/0"}, format: string}
  b: {loader: {postgres: "postgresql://erin:${PW}@h/d", table: t, key: [id]}, columns: "x int"}
  c: {loader: {postgres: "host=h user=frank password='${PW}'", table: t, key: [id]}, columns: "x int"}
"""

MASKED = [
    ("redis://user:hunter2@host:6379/0", "redis://user:***@host:6379/0"),
    ("redis://:hunter2@host", "redis://:***@host"),
    ("postgresql://user:hunter2@a,b/db?sslmode=require", "postgresql://user:***@a,b/db?sslmode=require"),
    ("postgresql://user:hun@ter/2@host/db", "postgresql://user:***@host/db"),
    ("postgresql://user@host/db?password=hunter2&x=1", "postgresql://user@host/db?password=***&x=1"),
    ("host=h user=u password=hunter2 dbname=d", "host=h user=u password=*** dbname=d"),
    ("host=h PASSWORD = 'hun ter\\'2' dbname=d", "host=h PASSWORD = *** dbname=d"),
    ("password='hunter2", "password=***"),
    ("sslpassword=hunter2", "sslpassword=***"),
    ("https://user@host:8081/path", "https://user@host:8081/path"),
    ("redis://host:6379/0", "redis://host:6379/0"),
    ("user_id", "user_id"),
]


@pytest.mark.parametrize(("text", "masked"), MASKED)
def test_passwords_in_addresses_are_masked_and_user_names_not(text: str, masked: str) -> None:
    assert mask(text) == masked


@pytest.fixture
def pipeline() -> Pipeline:
    return load_text(TEXT, {"PW": SECRET})


def test_no_text_of_a_pipeline_holds_a_password(pipeline: Pipeline) -> None:
    for text in (repr(pipeline), str(pipeline), as_yaml(pipeline), json.dumps(as_data(pipeline)), str(vars(pipeline))):
        assert SECRET not in text
        assert all(user in text for user in ("alice", "bob", "carol", "dave", "erin", "frank"))


def test_drivers_get_the_passwords(pipeline: Pipeline) -> None:
    security, loader = pipeline.kafka.security, pipeline.tables["a"].loader
    assert security is not None and security.password is not None and loader is not None and loader.redis is not None
    assert security.password.get_secret_value() == SECRET
    assert loader.redis.get_secret_value() == f"redis://dave:{SECRET}@h:6379/0"


def test_another_process_gets_the_whole_pipeline(pipeline: Pipeline) -> None:
    assert from_wire(to_wire(pipeline)) == pipeline
    assert pickle.loads(pickle.dumps(pipeline)) == pipeline  # noqa: S301 - our own bytes


IN_SETTINGS = [
    ("spark.hadoop.fs.s3a.access.key", "hunter2", "***"),
    ("spark.hadoop.fs.s3a.secret.key", "hunter2", "***"),
    ("spark.hadoop.fs.s3a.session.token", "hunter2", "***"),
    ("spark.hadoop.fs.s3a.encryption.key", "hunter2", "***"),
    ("spark.hadoop.fs.azure.account.key.a.dfs.core.windows.net", "hunter2", "***"),
    ("spark.hadoop.fs.azure.sas.c.a.blob.core.windows.net", "hunter2", "***"),
    ("spark.hadoop.fs.gs.auth.service.account.private.key", "hunter2", "***"),
    ("spark.hadoop.fs.oss.accessKeyId", "hunter2", "***"),
    ("spark.hadoop.fs.cosn.userinfo.credential", "hunter2", "***"),
    ("spark.ssl.keyPassword", "hunter2", "***"),
    ("spark.hadoop.fs.x.password", 4711, "***"),
    ("spark.jars.repositories", "https://u:hunter2@h/x", "https://u:***@h/x"),
    ("spark.driver.extraJavaOptions", "-Dpassword=hunter2 -Xss4m", "-Dpassword=*** -Xss4m"),
    ("spark.hadoop.fs.s3a.aws.credentials.provider", "org.Provider", "org.Provider"),
    ("spark.hadoop.fs.s3a.endpoint", "http://s:9000", "http://s:9000"),
    ("spark.hadoop.fs.s3a.path.style.access", True, True),
    ("spark.executor.cores", 4, 4),
]


@pytest.mark.parametrize(("name", "value", "shown"), IN_SETTINGS)
def test_a_secret_among_the_settings_of_a_stage_is_shown_to_nobody_and_given_to_spark(
    name: str, value: str | int, shown: str | int
) -> None:
    written = "'${V}'" if isinstance(value, str) else json.dumps(value)
    text = (
        f"stages: {{s: {{source: {{topic: a, format: string}}, sink: {{topic: b}}, settings: {{{name}: {written}}}}}}}"
    )
    pipeline = load_text(f"{TEXT}{text}\n", {"PW": SECRET, "V": str(value)})
    assert as_data(pipeline)["stages"]["s"]["settings"] == {name: shown}
    for told in (repr(pipeline), str(pipeline), as_yaml(pipeline), str(vars(pipeline.stages["s"]))):
        assert SECRET not in told
        assert "4711" not in told
    assert from_wire(to_wire(pipeline)) == pipeline
    for each in (pipeline, from_wire(to_wire(pipeline))):
        assert stage_settings(each.stages["s"]).session[name] == (value if isinstance(value, str) else written)


WRONG_PLACES = [
    "kafka: {bootstrap_servers: '${PW}'}",
    "kafka: {bootstrap_servers: ['${PW}:1', 'a']}",
    "kafka: {bootstrap_servers: 'a:1', security: {protocol: '${PW}'}}",
    "kafka: {bootstrap_servers: 'a:1', security: {protocol: SSL, password: ['${PW}']}}",
    "kafka: {bootstrap_servers: 'a:1', security: {protocol: SSL, passwrd: '${PW}'}}",
    "kafka: {bootstrap_servers: 'a:1', registry: {url: '${PW}'}}",
    "kafka: {bootstrap_servers: 'a:1', registry: {url: 'ftp://u:${PW}@h'}}",
    "kafka: {bootstrap_servers: 'a:1', client: {linger.ms: '${PW}', compression.type: '${PW}'}}",
    "kafka: '${PW}'",
    "memory: {budget: '${PW}', max_readers: '${PW}'}",
    "state_dir: 's3://${PW}'",
    "tables: {a: {topic: '${PW}/', format: '${PW}', columns: '${PW}', history: '${PW}'}}",
    "tables: {a: {format: avro, schema: '${PW}', columns: 'a int'}}",
    "tables: {a: {loader: {redis: '${PW}', postgres: '${PW}'}, format: string}}",
    "stages: {a: {settings: '${PW}', checkpoint: '/c'}}",
    "stages: {a: {settings: {spark.x: ['${PW}']}}}",
    "stages: {a: {lineage: '${PW}', lookups: [{as: '!${PW}', select: '${PW}', default: {x: '${PW}'}}]}}",
]


@pytest.mark.parametrize("text", WRONG_PLACES)
def test_a_value_from_the_environment_is_in_no_error(text: str) -> None:
    with pytest.raises(ConfigError) as raised:
        load_text(f"name: plays\n{text}\n", {"PW": SECRET})
    told = "".join(traceback.format_exception(raised.value)) + str(raised.value) + repr(raised.value)
    assert SECRET not in told
    assert SECRET[:-1] not in told


@pytest.mark.parametrize("address", ["rediss:/u:hunter2@h", "redis//u:hunter2@h", "u:hunter2@h"])
def test_a_misspelt_address_is_refused_without_its_password(address: str) -> None:
    with pytest.raises(ConfigProblems) as raised:
        load_text(f"tables: {{a: {{loader: {{redis: '{address}'}}}}}}", {})
    assert "tables.a.loader.redis: expected an address such as redis://host:6379/0" in str(raised.value)
    assert SECRET not in str(raised.value)
