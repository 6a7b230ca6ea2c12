"""The cache of Java archives when the network, the disk or a kill interferes. Every file handed out is whole."""

import io
import os
import random
import shutil
import signal
import socket
import subprocess
import sys
import tarfile

import pytest

from enrich.base.errors import ConfigError, Fatal, Unreachable
from enrich.jars import JarCache, Progress, read_lock
from enrich.jars.cache import cache_folder
from tests.chaos.dev.repository import Repository, cached, serving
from tests.integration.dev.stacks import assert_clear_error
from tests.support.waiting import wait_until


@pytest.fixture
def repository():
    repository = Repository()
    with serving(repository):
        yield repository


@pytest.fixture
def artifacts(repository):
    content = random.Random(1)
    return [repository.add(f"org.example:jar{n}:1.{n}", content.randbytes(50_000 + n)) for n in range(8)]


@pytest.fixture
def folder(tmp_path):
    return tmp_path / "cache" / "enrich" / "jars"


@pytest.fixture
def cache(folder, artifacts, repository):
    return JarCache(folder, artifacts, repository.url)


@pytest.fixture
def closed_port():
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        yield server.getsockname()[1]  # bound, so nobody else gets it; not listening, so connections are refused


def left_over(folder):
    return [path.name for path in folder.iterdir() if path.name.startswith("fetching-")]


def test_what_is_missing_is_fetched_once_and_verified(cache, folder, artifacts, repository):
    paths = cache.paths("test")
    assert [path.read_bytes() for path in paths] == [repository.files[f"/{a.path}"] for a in artifacts]
    assert cache.paths("test") == paths
    assert all(repository.asked_for(artifact) == 1 for artifact in artifacts)
    assert left_over(folder) == []


def test_progress_reaches_all_files(folder, artifacts, repository):
    seen: list[Progress] = []
    JarCache(folder, artifacts, repository.url).paths("test", seen.append)
    assert max(progress.done for progress in seen) == pytest.approx(8)
    assert max(progress.received for progress in seen) == sum(map(len, repository.files.values()))


def test_a_flipped_byte_is_noticed_reported_and_fetched_again(cache, folder, artifacts, caplog):
    cache.paths("test")
    victim = folder / artifacts[3].path
    content = bytearray(victim.read_bytes())
    content[len(content) // 2] ^= 1
    victim.write_bytes(content)
    cache.paths("test")
    assert cached(folder, artifacts[3]) != content
    assert caplog.messages == ["jar3-1.3.jar has a wrong checksum in the cache; fetching it again"]


def test_half_a_jar_in_the_cache_is_fetched_again(cache, folder, artifacts, repository):
    cache.paths("test")
    with (folder / artifacts[0].path).open("r+b") as file:
        file.truncate(1_000)
    cache.paths("test")
    assert cached(folder, artifacts[0]) == repository.files[f"/{artifacts[0].path}"]


def test_one_hiccup_of_the_network_is_forgiven(cache, folder, artifacts, repository):
    repository.upset(artifacts[5], "cut once")
    cache.paths("test")
    assert repository.asked_for(artifacts[5]) == 2


def test_a_download_that_is_cut_short_does_not_count_and_the_next_goes_on(cache, folder, artifacts, repository):
    repository.upset(artifacts[7], "cut")
    with pytest.raises(Unreachable, match=r"not in the cache and could not be fetched: .*jar7:1\.7") as caught:
        cache.paths("test")
    assert str(folder) in (caught.value.where or "")
    missing = [artifact for artifact in artifacts if not (folder / artifact.path).exists()]
    assert artifacts[7] in missing
    assert len(missing) < len(artifacts)

    repository.trouble.clear()
    repository.asked.clear()
    cache.paths("test")
    assert [artifact for artifact in artifacts if repository.asked_for(artifact)] == missing
    assert left_over(folder) == []


def test_a_download_with_a_wrong_checksum_is_an_error_and_is_not_kept(cache, folder, artifacts, repository):
    repository.upset(artifacts[2], "flip")
    with pytest.raises(Fatal, match=r"org\.example:jar2:1\.2 came with a wrong checksum"):
        cache.paths("test")
    assert not (folder / artifacts[2].path).exists()


def test_a_file_that_the_repository_does_not_have_is_named(cache, artifacts, repository):
    repository.upset(artifacts[1], "gone")
    with pytest.raises(Unreachable, match=r"did not give org\.example:jar1:1\.1"):
        cache.paths("test")


def test_a_killed_download_does_not_count_and_its_rest_is_cleared_away(cache, folder, artifacts, repository):
    repository.upset(artifacts[0], "stall")
    downloader = f"""
import pathlib
from enrich.jars import Artifact, JarCache
JarCache(pathlib.Path({str(folder)!r}), {artifacts[:1]!r}, {repository.url!r}).paths("test")
"""
    with subprocess.Popen([sys.executable, "-c", downloader]) as process:
        assert repository.stalled.wait(timeout=120)
        wait_until(lambda: left_over(folder), what="the folder of the download")
        process.send_signal(signal.SIGKILL)
    assert not (folder / artifacts[0].path).exists()
    assert left_over(folder)

    repository.trouble.clear()
    cache.paths("test")
    assert left_over(folder) == []
    assert cached(folder, artifacts[0]) == repository.files[f"/{artifacts[0].path}"]


def test_ctrl_c_ends_a_download_at_once(folder, artifacts, repository):
    repository.upset(artifacts[0], "stall")
    downloader = f"""
import pathlib
from enrich.jars import Artifact, JarCache
JarCache(pathlib.Path({str(folder)!r}), {artifacts[:1]!r}, {repository.url!r}).paths("test")
"""
    with subprocess.Popen([sys.executable, "-c", downloader], stderr=subprocess.DEVNULL) as process:
        assert repository.stalled.wait(timeout=120)
        process.send_signal(signal.SIGINT)
        assert process.wait(timeout=30) == -signal.SIGINT


def test_two_processes_at_once_fetch_each_file_once(folder, artifacts, repository):
    downloader = f"""
import pathlib
from enrich.jars import Artifact, JarCache
JarCache(pathlib.Path({str(folder)!r}), {artifacts!r}, {repository.url!r}).paths("test")
"""
    both = [subprocess.Popen([sys.executable, "-c", downloader]) for _ in range(2)]
    assert [process.wait(timeout=60) for process in both] == [0, 0]
    assert [repository.asked_for(artifact) for artifact in artifacts] == [1] * 8


def test_a_cache_that_cannot_be_written_is_an_error_that_names_it(artifacts, repository, tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(ConfigError, match="cannot be written") as caught:
        JarCache(tmp_path / "file" / "jars", artifacts, repository.url).paths("test")
    assert "XDG_CACHE_HOME" in (caught.value.next_step or "")


def test_a_damaged_unpacked_archive_is_unpacked_again(folder, repository, caplog):
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as tar:
        tar.addfile(entry := tarfile.TarInfo("app-runner.jar"), io.BytesIO(b"x" * 100))
        entry.size = 100
        tar.addfile(entry, io.BytesIO(b"x" * 100))
    artifact = repository.add("io.example:app:1.0:all:tar.gz", buffer.getvalue())
    cache = JarCache(folder, [artifact], repository.url)
    unpacked = cache.unpacked("test")
    (unpacked / "app-runner.jar").write_bytes(b"y" * 100)
    assert cache.unpacked("test") == unpacked
    assert (unpacked / "app-runner.jar").read_bytes() == b"x" * 100
    assert caplog.messages == ["the unpacked app-1.0-all.tar.gz is damaged; unpacking it again"]


def test_without_jars_and_network_up_says_what_is_missing_and_what_to_do(new_stack, tmp_path, closed_port):
    stack = new_stack()
    proxy = f"http://127.0.0.1:{closed_port}"
    done = stack.run(
        "up",
        env={"XDG_CACHE_HOME": str(tmp_path / "empty"), "HTTPS_PROXY": proxy, "https_proxy": proxy, "NO_PROXY": None},
    )
    words = ("46 Java archives", "Maven Central", str(tmp_path / "empty"), "python -m enrich.jars")
    assert_clear_error(done, 3, *words)
    assert stack.processes() == []


def test_with_a_corrupt_jar_and_no_network_up_says_so_and_starts_nothing(new_stack, tmp_path, closed_port):
    cache = tmp_path / "enrich" / "jars"
    kafka = [artifact for artifact in read_lock() if artifact.set_name == "kafka"]
    for artifact in kafka:
        (cache / artifact.path).parent.mkdir(parents=True)
        os.link(cache_folder() / artifact.path, cache / artifact.path)
    victim = cache / next(artifact for artifact in kafka if artifact.name == "kafka-raft").path
    content = bytearray(victim.read_bytes())
    content[len(content) // 2] ^= 1
    victim.unlink()  # never write into what is linked: the user's cache is the other end
    victim.write_bytes(content)

    stack = new_stack()
    env = {"XDG_CACHE_HOME": str(tmp_path), "HTTPS_PROXY": f"http://127.0.0.1:{closed_port}", "NO_PROXY": None}
    done = stack.run("up", env=env)
    assert_clear_error(done, 3, "kafka-raft-4.3.1.jar has a wrong checksum", "1 Java archive is", "kafka-raft:4.3.1")
    assert stack.processes() == []

    shutil.copyfile(cache_folder() / victim.relative_to(cache), victim)
    assert JarCache(cache, kafka).paths("kafka")


def test_without_requests_the_error_names_the_extra_to_install(folder, artifacts, monkeypatch):
    monkeypatch.setattr("enrich.jars.fetch.find_spec", lambda _: None)
    with pytest.raises(ConfigError, match="requests") as caught:
        JarCache(folder, artifacts).paths("test")
    assert caught.value.next_step == "pip install -e '.[dev-stack]' in the checkout"
