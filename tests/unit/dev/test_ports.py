"""Ports of a stack."""

import os
import random
import socket
from pathlib import Path

import pytest

from enrich.base.errors import Fatal
from enrich.dev.servers import ports
from tests.support.seed import random_source


@pytest.fixture
def listener():
    with socket.socket() as server:
        server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # as every server of a stack does
        server.bind(("127.0.0.1", 0))
        server.listen()
        yield server


def test_chosen_ports_are_free_and_differ():
    chosen = ports.choose(20, set(), random_source("ports"))
    assert len(set(chosen)) == 20
    assert all(ports.is_free(port) for port in chosen)


def test_chosen_ports_are_none_that_the_kernel_gives_to_outgoing_connections():
    lowest = int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    if lowest > 21_000:
        assert max(ports.choose(50, set(), random_source("range"))) < lowest


def test_a_port_of_the_same_stack_is_not_chosen_again():
    first = ports.choose(1, set(), random.Random(1))
    assert ports.choose(1, set(first), random.Random(1)) != first


def test_a_port_somebody_listens_on_is_not_free(listener):
    assert not ports.is_free(listener.getsockname()[1])


def test_a_port_taken_on_all_interfaces_is_not_free():
    with socket.socket() as server:
        server.bind(("", 0))
        server.listen()
        assert not ports.is_free(server.getsockname()[1])


def test_connections_that_fade_away_do_not_make_a_port_taken(listener):
    port = listener.getsockname()[1]
    with socket.create_connection(("127.0.0.1", port)):
        accepted, _ = listener.accept()
        accepted.close()  # this side closes first, so its end stays in TIME_WAIT
    listener.close()
    assert ports.is_free(port)


def test_the_owner_of_a_port_is_named(listener):
    owner = ports.owner(listener.getsockname()[1])
    assert owner is not None
    assert owner.startswith(f"process {os.getpid()} (")
    assert ports.owner(1) is None


def test_running_out_of_ports_is_an_error_and_no_endless_loop(monkeypatch):
    monkeypatch.setattr(ports, "is_free", lambda _: False)
    with pytest.raises(Fatal, match="no free port"):
        ports.choose(1, set())
