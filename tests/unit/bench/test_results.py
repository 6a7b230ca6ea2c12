"""What stands in bench/RESULTS.md after a benchmark ran."""

from bench.catalogue import BENCHMARKS
from bench.results import RESULTS, record

SECOND, FIRST = "store_bootstrap", "cli_start"


def test_a_benchmark_replaces_its_own_section_and_no_other(tmp_path):
    file = tmp_path / "RESULTS.md"
    record(BENCHMARKS[SECOND], {"rows_per_s": 300_000, "peak_mib": 700}, file)
    record(BENCHMARKS[FIRST], {"ms": 120}, file)
    record(BENCHMARKS[SECOND], {"rows_per_s": 200_000, "ready_s": 5.5}, file)
    lines = file.read_text().splitlines()
    assert [line for line in lines if line.startswith("## ")] == [f"## {FIRST}", f"## {SECOND}"]
    assert [line for line in lines if line.startswith("| ") and "figure" not in line] == [
        "| ms | 120 | < 300 ok |",
        "| rows_per_s | 200000 | >= 250000 MISSED |",
        "| ready_s | 5.5 |  |",
    ]


def test_the_file_of_the_project_is_in_this_form(tmp_path):
    file = tmp_path / RESULTS.name
    file.write_text(RESULTS.read_text())
    record(BENCHMARKS[FIRST], {"ms": 120}, file)
    before, after = RESULTS.read_text().split("## cache"), file.read_text().split("## cache")
    assert len(after) == 2
    assert after[1] == before[1]
