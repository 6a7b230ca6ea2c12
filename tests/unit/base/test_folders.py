import shutil
import stat
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from enrich.base.errors import ConfigError
from enrich.base.folders import make_base_folder, make_folder, mark
from tests.support.seed import rounds


@pytest.fixture
def deleted_all_the_time(tmp_path):
    """A directory that somebody deletes as fast as they can."""
    folder, done = tmp_path / "state", threading.Event()

    def delete() -> None:
        while not done.is_set():
            shutil.rmtree(folder, ignore_errors=True)

    with ThreadPoolExecutor(1) as others:
        busy = others.submit(delete)
        yield folder
        done.set()
        busy.result()


def test_a_folder_is_made_with_those_above_it_and_may_be_there(tmp_path):
    for _ in range(2):
        make_folder(tmp_path / "a" / "b")
        mark(tmp_path / "c" / "d" / "file")
    assert (tmp_path / "a" / "b").is_dir()
    assert (tmp_path / "c" / "d" / "file").read_bytes() == b""


def test_a_file_is_made_although_its_folder_is_being_deleted(deleted_all_the_time):
    for number in range(rounds(500, 50_000)):
        mark(deleted_all_the_time / "leases" / str(number))


@pytest.mark.parametrize("wrong", ["file/state", "file", "/proc/state"])
def test_one_that_cannot_be_names_the_setting(tmp_path, wrong):
    (tmp_path / "file").touch()
    for make in (make_folder, lambda folder: mark(folder / "file")):
        with pytest.raises(ConfigError) as caught:
            make(tmp_path / wrong)
        assert caught.value.where is not None
        assert Path(caught.value.where).is_relative_to(tmp_path / wrong)
        assert "state_dir" in str(caught.value.next_step)


@pytest.mark.parametrize("before", [None, 0o755, 0o777])
def test_what_is_kept_below_state_dir_is_for_its_user_alone_and_state_dir_stays_as_it_is(tmp_path, before):
    tmp_path.chmod(0o755)
    folder = tmp_path / "pipeline" / "store"
    if before is not None:
        folder.mkdir(parents=True)
        folder.chmod(before)
    make_folder(folder)
    mark(folder / "leases" / "1")
    assert [stat.S_IMODE(path.stat().st_mode) for path in (folder, folder / "leases")] == [0o700, 0o700]
    make_base_folder(tmp_path)
    assert stat.S_IMODE(tmp_path.stat().st_mode) == 0o755
