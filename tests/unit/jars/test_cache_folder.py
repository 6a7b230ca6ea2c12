"""Where the cache of Java archives is."""

from pathlib import Path

import pytest

from enrich.jars.cache import cache_folder


def test_xdg_cache_home_decides(monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", "/somewhere/cache")
    assert cache_folder() == Path("/somewhere/cache/enrich/jars")


@pytest.mark.parametrize("value", ["", "relative/path"])
def test_without_an_absolute_one_it_is_below_the_home(monkeypatch, value):
    monkeypatch.setenv("XDG_CACHE_HOME", value)
    monkeypatch.setenv("HOME", "/home/somebody")
    assert cache_folder() == Path("/home/somebody/.cache/enrich/jars")
