"""What Spark says when it does not begin a query, in a line, with the place to correct."""

from types import SimpleNamespace
from typing import Any

import pytest
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException

from enrich.base.errors import ConfigError, Fatal
from enrich.stage.spark.refusals import begun_by_spark


def java(message: str | None) -> Py4JJavaError:
    thrown: Any = SimpleNamespace(
        _target_id="o1", getMessage=lambda: message, getClass=lambda: SimpleNamespace(getName=lambda: "java.io.IOError")
    )
    return Py4JJavaError("An error occurred while calling o1.start.\n", thrown)


def test_a_setting_that_spark_refuses_is_an_error_of_the_configuration():
    text = "\nminOffsetsPerTrigger should not be higher than maxOffsetsPerTrigger\n\nJVM stacktrace:\nat java.base"
    with pytest.raises(ConfigError) as raised, begun_by_spark("enrich"):
        raise PySparkException(text)
    assert raised.value.what == (
        "Spark does not begin: minOffsetsPerTrigger should not be higher than maxOffsetsPerTrigger"
    )
    assert raised.value.where == "stages.enrich.settings"


@pytest.mark.parametrize(("message", "says"), [("no space left\n\tat java.base", "no space left"), (None, "java.io.")])
def test_what_fails_otherwise_is_told_in_a_line(message, says):
    with pytest.raises(Fatal, match=f"Spark does not begin: {says}") as raised, begun_by_spark("enrich"):
        raise java(message)
    assert "\n" not in raised.value.what


def test_errors_of_ours_pass():
    with pytest.raises(ConfigError, match=r"^ours"), begun_by_spark("enrich"):
        raise ConfigError("ours")
