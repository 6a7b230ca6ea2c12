"""How tests start Spark's JVMs: code is compiled once instead of twice, one thread collects memory, and classes come
from the archive that set-up makes: half the processor time, and half the wait, of a start. What a stage does is the
same."""

import shlex

from enrich.stage.spark.jvm_start import start_options
from tests.support.class_archive import QUICK


def quick_jvm() -> str:
    """Options of `java`."""
    return f"{shlex.join(QUICK)} {start_options()}"
