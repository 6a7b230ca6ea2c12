"""The lock file of Java archives."""

import re
from pathlib import Path

import pytest

from enrich.base.errors import ConfigError
from enrich.jars.lock import LOCK_FILE, Artifact, parse_coordinate, read_lock, write_lock

SUM = "a" * 64
JAR = Artifact("kafka", "org.example", "thing_2.13", "4.3.1", "", "jar", SUM)
TARBALL = Artifact("registry", "io.example", "app", "3.0.9", "all", "tar.gz", SUM)


def lock_with(tmp_path, line):
    path = tmp_path / "test.lock"
    path.write_text(f"# a comment\n\n{line}\n")
    return path


def test_a_line_names_set_coordinate_and_checksum(tmp_path):
    assert read_lock(lock_with(tmp_path, f"{SUM}  kafka  org.example:thing_2.13:4.3.1")) == (JAR,)
    assert read_lock(lock_with(tmp_path, f"{SUM}  registry  io.example:app:3.0.9:all:tar.gz")) == (TARBALL,)


def test_what_is_written_is_read_back_in_order_and_once(tmp_path):
    path = tmp_path / "test.lock"
    write_lock([TARBALL, JAR, TARBALL], path)
    assert read_lock(path) == (JAR, TARBALL)


def test_files_of_equal_names_in_two_groups_have_places_of_their_own():
    other = parse_coordinate("com.example:thing_2.13:4.3.1", set_name="kafka")
    assert JAR.path != other.path
    assert str(JAR.path) == "org/example/thing_2.13/4.3.1/thing_2.13-4.3.1.jar"
    assert str(TARBALL.path) == "io/example/app/3.0.9/app-3.0.9-all.tar.gz"


@pytest.mark.parametrize(
    "line",
    [
        "kafka  org.example:thing:1",
        f"{SUM}  kafka  org.example:thing",
        f"{SUM[1:]}  kafka  org.example:thing:1",
        f"{SUM.upper()}  kafka  org.example:thing:1",
        f"{SUM}  kafka  org.example:thing:1  more",
        f"{SUM}  kafka  org.example:../../../evil:1",
        f"{SUM}  kafka  org.example:thing:..",
        f"{SUM}  kafka  /etc:thing:1",
        f"{SUM}  kafka  org..example:thing:1",
        f"{SUM}  kafka  org.example:thing:1:all:",
    ],
)
def test_a_line_that_cannot_be_read_is_named_with_its_number(tmp_path, line):
    with pytest.raises(ConfigError) as caught:
        read_lock(lock_with(tmp_path, line))
    assert caught.value.where == "test.lock:3"


def test_the_lock_of_the_product_has_its_sets_and_no_address():
    text = LOCK_FILE.read_text()
    artifacts = read_lock()
    assert {artifact.set_name for artifact in artifacts} == {"kafka", "spark", "registry"}
    assert not re.search(r"https?:|//|www\.", text)
    for set_name in ("kafka", "spark"):
        names = [artifact.name for artifact in artifacts if artifact.set_name == set_name]
        assert len(names) == len(set(names)), "two versions of one library on one class path"


def test_spark_gets_nothing_that_pyspark_ships():
    import pyspark

    from enrich.jars.relock import _is_shipped

    shipped = [path.name for path in Path(pyspark.__file__).parent.glob("jars/*.jar")]
    assert len(shipped) > 200
    spark = [artifact for artifact in read_lock() if artifact.set_name == "spark"]
    assert [artifact.name for artifact in spark if _is_shipped(artifact, shipped)] == []
    assert {"spark-sql-kafka-0-10_2.13", "kafka-clients", "commons-pool2"} <= {artifact.name for artifact in spark}
