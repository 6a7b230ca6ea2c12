"""One budget is shared out: never more than there is, and more budget makes nothing smaller."""

import os

import pytest
from hypothesis import given
from hypothesis import strategies as st

from enrich.config import Memory
from enrich.config.sections.host.memory_shares import least_shares, memory_rules, memory_shares

MIB = 2**20


def shares_of(budget, readers=None):
    return memory_shares(Memory.model_construct(budget=budget, max_readers=readers))


def is_accepted(budget, readers=None):
    return not list(memory_rules(Memory.model_construct(budget=budget, max_readers=readers)))


@given(st.integers(0, 64 * 1024 * MIB), st.integers(1, 1024))
def test_what_is_accepted_holds_all_shares(extra, readers):
    budget = least_shares(readers).assigned + extra
    assert is_accepted(budget, readers)
    shares = shares_of(budget, readers)
    assert shares.assigned <= budget
    least = least_shares(readers)
    for size in ("block_cache", "write_buffer", "bulk", "reader_cache"):
        assert getattr(shares, size) >= getattr(least, size)


@given(st.integers(1, 1024))
def test_one_byte_less_than_the_least_is_refused(readers):
    assert not is_accepted(least_shares(readers).assigned - 1, readers)


@given(st.integers(423 * MIB, 8192 * MIB), st.integers(0, 1024 * MIB))
def test_more_budget_makes_nothing_smaller(budget, more):
    small, large = shares_of(budget, 1), shares_of(budget + more, 1)
    for size in ("block_cache", "write_buffer", "bulk", "reader_cache", "loads_at_once"):
        assert getattr(large, size) >= getattr(small, size)


@pytest.mark.parametrize(("cores", "budget", "readers"), [(2, 2048, 2), (64, 2048, 50), (64, 4096, 64), (8, 423, 1)])
def test_without_a_number_there_are_as_many_readers_as_cores_that_the_budget_holds(monkeypatch, cores, budget, readers):
    monkeypatch.setattr(os, "cpu_count", lambda: cores)
    shares = shares_of(budget * MIB)
    assert shares.readers == readers
    assert shares.assigned <= budget * MIB
