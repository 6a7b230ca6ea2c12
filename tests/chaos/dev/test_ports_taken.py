"""Ports that somebody else takes, before, between and during starts."""

import os
import socket

import pytest

from enrich.dev import Stack
from enrich.dev.bringup import BringUp
from enrich.dev.processes.starter import PortTaken
from enrich.dev.servers import ports
from enrich.dev.servers.redis import Redis
from enrich.dev.state import ServerState, StackFolder, State
from tests.integration.dev.stacks import assert_clear_error


@pytest.fixture
def squatter():
    with socket.socket() as server:
        server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        (port,) = ports.choose(1, set())
        server.bind(("127.0.0.1", port))
        server.listen()
        yield server


def test_a_kept_port_that_is_taken_stops_up_before_anything_starts(new_stack, only_redis):
    stack = new_stack()
    handle = Stack(stack.directory)
    handle.up()
    port = handle.folder.load().servers["redis"].ports["redis"]
    handle.down()
    with socket.socket() as squatter:
        squatter.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        squatter.bind(("127.0.0.1", port))
        squatter.listen()
        done = stack.run("up")
        who = f"process {os.getpid()}"
        assert_clear_error(done, 5, f"port {port} of redis is taken by {who}", "stop that program", "--new-ports")
        assert stack.processes() == []
        assert not (stack.directory / "kafka").exists()
        with pytest.raises(PortTaken):
            handle.up()

        handle.up(new_ports=True)
        moved = handle.folder.load().servers["redis"].ports["redis"]
        assert moved != port
        handle.down()
    handle.up()
    assert handle.folder.load().servers["redis"].ports["redis"] == moved


@pytest.fixture
def bring_up(new_stack):
    """Starts a Redis by itself, without the command line."""
    folder = StackFolder(new_stack().directory)
    folder.path.mkdir()

    def run(state):
        BringUp(folder, state, [Redis()], lambda *_: None).run(None, new_ports=False, final=False)
        return state.servers["redis"].ports["redis"]

    return run


def test_a_port_lost_between_choice_and_start_is_chosen_again(bring_up, squatter, monkeypatch):
    taken = squatter.getsockname()[1]
    choices = iter([[taken], [taken], ports.choose(1, set())])
    monkeypatch.setattr(ports, "choose", lambda *_: next(choices))
    assert bring_up(State()) != taken


def test_a_port_lost_while_the_server_starts_is_chosen_again(bring_up, squatter, monkeypatch):
    taken, really_free = squatter.getsockname()[1], ports.is_free
    choices = iter([[taken], ports.choose(1, set())])
    monkeypatch.setattr(ports, "choose", lambda *_: next(choices))
    lies = iter([True, True])  # the looks before the choice is kept and before the start: only the bind finds out
    monkeypatch.setattr(ports, "is_free", lambda port: next(lies, False) or really_free(port))
    assert bring_up(State()) != taken


def test_losing_port_after_port_ends_in_an_error(bring_up, squatter, monkeypatch, new_stack):
    monkeypatch.setattr(ports, "choose", lambda *_: [squatter.getsockname()[1]])
    with pytest.raises(PortTaken):
        bring_up(State())
    assert new_stack().processes() == []


def test_a_port_that_nobody_was_told_yet_is_simply_chosen_anew(bring_up, squatter):
    taken = squatter.getsockname()[1]
    state = State({"redis": ServerState({"redis": taken}, "token")})
    assert bring_up(state) != taken


def test_a_port_that_was_told_is_never_given_up_silently(bring_up, squatter):
    taken = squatter.getsockname()[1]
    state = State({"redis": ServerState({"redis": taken}, "token", settled=True)})
    with pytest.raises(PortTaken, match=str(taken)):
        bring_up(state)
