"""Which files of ours a process runs."""

from enrich.stage import build as module
from enrich.stage.build import build


def test_a_build_is_another_one_if_any_file_of_ours_is(tmp_path, monkeypatch):
    monkeypatch.setattr(module, "_ROOT", tmp_path)
    for name in ("enrich/a.py", "enrich/within/b.py", "stores/c.py"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("x = 1\n")
    builds = [build.__wrapped__()]
    (tmp_path / "enrich/compiled.pyc").write_bytes(b"1")
    assert build.__wrapped__() == builds[0]
    (tmp_path / "enrich/within/b.py").write_text("x = 2\n")
    builds.append(build.__wrapped__())
    (tmp_path / "stores/c.py").rename(tmp_path / "stores/d.py")
    builds.append(build.__wrapped__())
    (tmp_path / "enrich/a.py").unlink()
    builds.append(build.__wrapped__())
    assert len({*builds}) == 4


def test_what_is_no_file_has_no_build(monkeypatch):
    monkeypatch.setattr(module, "__file__", "/nowhere/packages.zip/enrich/stage/build.py")
    assert build.__wrapped__() is None
