"""What Spark says when it does not begin a query, as an error of our tree: most often a setting of the stage is wrong,
and Java says a page about it."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException

from enrich.base.errors import ConfigError, Fatal


@contextmanager
def begun_by_spark(stage: str) -> Iterator[None]:
    """Around the calls that begin the stage's query. Raises ConfigError for what Spark refuses, and Fatal for anything
    else, such as a file system of its checkpoint that fails."""
    try:
        yield
    except PySparkException as error:
        raise ConfigError(
            f"Spark does not begin: {first_line(str(error), type(error).__name__)}",
            where=f"stages.{stage}.settings",
            next_step="correct the setting that Spark names, here, under kafka.client or with --conf",
        ) from error
    except Py4JJavaError as error:
        # PySpark knows all of Java's exceptions that are about what a user has written.
        raise Fatal(
            f"Spark does not begin: {first_reason(error)}",
            where=f"stages.{stage}",
            next_step="see the log lines above; progress is kept in the checkpoint",
        ) from error


def first_reason(error: Py4JJavaError) -> str:
    """The first line of what Java says."""
    thrown: Any = error.java_exception
    return first_line(str(thrown.getMessage() or ""), str(thrown.getClass().getName()))


def first_line(text: str, otherwise: str) -> str:
    return next((line.strip() for line in text.splitlines() if line.strip()), otherwise)
