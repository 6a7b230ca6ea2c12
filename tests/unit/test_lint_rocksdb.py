import pytest

from tools.lint_rocksdb import problems


@pytest.mark.parametrize(
    "line",
    [
        "Rdict(path)",
        "rocksdict.Rdict(path)",
        "Rdict(path, column_families={})",
        "Options()",
        "Options(raw_mode=False)",
        "rocksdict.Options(False)",
        "Rdict.repair(path)",
        "Rdict.destroy(path)",
    ],
)
def test_an_open_that_could_unpickle_is_reported_with_its_line(line):
    (problem,) = problems(f"\n{line}\n", "x.py")
    assert problem.startswith("x.py:2: ")


@pytest.mark.parametrize(
    "line",
    [
        "Rdict(path, Options(raw_mode=True))",
        "Rdict(path, options=options)",
        "Options(True)",
        "other(path)",
        "Rdict.destroy(p, o)",
    ],
)
def test_explicit_raw_options_pass(line):
    assert list(problems(line, "x.py")) == []
