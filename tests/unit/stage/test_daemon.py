"""Workers run the same files of ours as their stage's driver."""

import pyspark.worker
import pytest

from enrich.base.errors import ConfigError
from enrich.stage.build import build
from enrich.stage.daemon import refuse_others
from enrich.stage.task.failures import ReportedFailure, failure_of


@pytest.fixture(autouse=True)
def begins(monkeypatch):
    def begin(infile):
        return f"{infile} begins"

    monkeypatch.setattr(pyspark.worker, "check_python_version", begin)


def begun(task):
    return vars(pyspark.worker)["check_python_version"](task)


def test_a_task_of_a_driver_that_runs_other_files_of_ours_fails_and_says_so():
    refuse_others("another")
    with pytest.raises(ReportedFailure) as failed:
        begun("a task")
    told = failure_of(failed.value)
    assert isinstance(told, ConfigError)
    assert told.what == (
        f"the executor runs other files of enrich (build {build()}) than the stage's driver (build another)"
    )
    assert "enrich package" in str(told.next_step)


@pytest.mark.parametrize("drivers", [build(), None])
def test_tasks_of_a_driver_with_the_same_files_begin(drivers):
    refuse_others(drivers)
    assert begun("a task") == "a task begins"
