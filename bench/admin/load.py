"""`enrich table load` of a CSV file of 1 M rows, from the start of the process to its end."""

import statistics
import tempfile
from pathlib import Path

from bench.admin.commands import run_command
from bench.harness import Figures, say
from bench.kit.metadata import COLUMNS, PARTITIONS, ROWS, pipeline_of
from enrich.dev import temporary_stack
from enrich.kafka import COMPACTED, Topics, new_admin_client

ROUNDS = 3


def run() -> Figures:
    with temporary_stack(quiet=True) as stack, tempfile.TemporaryDirectory(prefix="enrich-bench-") as name:
        folder = Path(name)
        file = _csv(folder / "users.csv")
        topics = Topics(new_admin_client({"bootstrap.servers": stack.bootstrap_servers}))
        rounds = []
        for number in range(1, ROUNDS + 1):
            say(f"round {number}/{ROUNDS}")
            topic = f"users-{number}"
            topics.create(topic, partitions=PARTITIONS, config=COMPACTED)
            pipeline_of(folder, stack.bootstrap_servers, topic)
            ran = run_command("table", "load", topic, file, "--key", "user_id", "--yes", "-c", folder / "pipeline.yaml")
            if ran.told["written"] != ROWS:
                raise AssertionError(f"{ran.told['written']} of {ROWS} rows were written")
            rounds.append({"rows_per_s": ROWS / ran.s, "cpu_s": ran.cpu_s, "peak_mib": ran.peak_mib})
    return {name: statistics.median(figures[name] for figures in rounds) for name in rounds[0]}


def _csv(path: Path) -> Path:
    """Rows of about 100 bytes once they are JSON."""
    names = [column.split()[0] for column in COLUMNS.split(", ")]
    with path.open("w", encoding="utf-8") as file:
        file.write(f"user_id,{','.join(names)}\n")
        file.writelines(
            f"user:{number},{'pro-' * 10}{number % 3},eu-{number % 17},{number}\n" for number in range(ROWS)
        )
    return path
