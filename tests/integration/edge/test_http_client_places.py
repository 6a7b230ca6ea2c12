"""The client of expel connects to the addresses that it has checked, and to nothing that a name becomes afterwards."""

import asyncio
import socket
from ipaddress import ip_address
from unittest import mock

import pytest
import uvloop

from enrich.base.errors import ConfigError
from enrich.endpoints import addresses, target_of
from enrich.endpoints.http import Answer, NoAnswer, Place, names
from tests.support.edge.posting import client_of, outcome, posted
from tests.support.links.names import silent
from tests.support.servers.scripted_endpoint import ScriptedEndpoint, answers, closes, sends, whole

CLOSING = sends(whole(200, headers=[("Connection", "close")]))


class Zone:
    """What a name leads to, as a test says it."""

    def __init__(self, *answers_):
        self._answers = answers_
        self.asked = []

    async def __call__(self, name, port):
        self.asked.append(name)
        found = self._answers[min(len(self.asked), len(self._answers)) - 1]
        if isinstance(found, Exception):
            raise found
        families = [socket.AF_INET6 if ":" in ip else socket.AF_INET for ip in found]
        return [Place(family, (ip, port)) for family, ip in zip(families, found, strict=True)]


@pytest.fixture
def outside(monkeypatch):
    """Stands for a public address: tests leave this host alone."""
    real = addresses.why_private
    monkeypatch.setattr(
        addresses, "why_private", lambda address: None if address == ip_address("127.0.0.2") else real(address)
    )
    return "127.0.0.2"


def test_a_name_that_leads_inside_later_gets_no_request(outside):
    """Rebinding: the name is public when it is checked, and private a moment later."""
    zone = Zone([outside], ["127.0.0.1"])

    async def post():
        async with client_of(f"http://hook.example:{port}/", allow_private=False, resolve=zone) as client:
            with ScriptedEndpoint(answers(), CLOSING, answers(), CLOSING, address=outside, port=port):
                answered = [await outcome(client) for _ in range(4)]  # two connections, one look-up
            assert zone.asked == ["hook.example"]
            refused = await outcome(client)  # the address is given up, the name is asked again
            with pytest.raises(ConfigError) as caught:
                await client.post(b"{}", {})
            return answered, refused, caught.value

    with ScriptedEndpoint() as inside:
        port = inside.port
        answered, refused, error = uvloop.run(post())
    assert [answer.status for answer in answered] == [200] * 4
    assert (refused.reason, refused.may_have_arrived) == (f"127.0.0.2:{port}: connection refused", False)
    assert (error.what, error.where) == (
        "hook.example leads to no public address: 127.0.0.1 is this host itself",
        "expel.acme",
    )
    assert inside.connections == 0


def test_of_several_addresses_private_ones_are_left_out(outside):
    zone = Zone(["127.0.0.1", "169.254.169.254", outside])
    with ScriptedEndpoint() as inside, ScriptedEndpoint(address=outside, port=inside.port) as endpoint:
        assert posted(endpoint, b"1", host="hook.example", allow_private=False, resolve=zone) == [Answer(200, None, "")]
        assert inside.connections == 0


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "0x7f.1", "2130706433", "[::1]", "[::ffff:127.0.0.1]"])
def test_a_private_address_is_refused_in_every_notation(host):
    with ScriptedEndpoint() as endpoint, pytest.raises(ConfigError, match="leads to no public address"):
        posted(endpoint, b"1", host=host, allow_private=False)
    assert endpoint.connections == 0


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "LOCALHOST", "localhost."])
def test_private_addresses_can_be_allowed(host):
    with ScriptedEndpoint() as endpoint:
        assert posted(endpoint, b"1", host=host) == [Answer(200, None, "")]
    assert endpoint.requests[0].headers["host"] == f"{host.lower().removesuffix('.')}:{endpoint.port}"


def test_an_address_of_the_newer_protocol_is_written_in_brackets():
    with ScriptedEndpoint(address="::1") as endpoint:
        assert posted(endpoint, b"1", host="[::1]") == [Answer(200, None, "")]
    assert endpoint.requests[0].headers["host"] == f"[::1]:{endpoint.port}"


def test_a_name_is_asked_for_in_its_ascii_form():
    zone = Zone(["127.0.0.1"])
    with ScriptedEndpoint() as endpoint:
        assert posted(endpoint, b"1", host="Bücher.example", resolve=zone) == [Answer(200, None, "")]
    assert zone.asked == ["xn--bcher-kva.example"]
    assert endpoint.requests[0].headers["host"] == f"xn--bcher-kva.example:{endpoint.port}"


def test_the_port_of_the_scheme_is_not_written():
    hosts = [
        target_of(url, "").host for url in ("http://a.example:80/", "https://a.example/", "https://[2606:4700::1]:8443")
    ]
    assert hosts == ["a.example", "a.example", "[2606:4700::1]:8443"]


def post_while_the_first_listens_late(zone: Zone) -> None:
    """Twice; the zone's first address takes no connection before the second time, and is not asked then either."""

    async def post():
        async with client_of(endpoint.url("hook.example"), resolve=zone) as client:
            outcomes = [await outcome(client)]
            with ScriptedEndpoint(address="127.0.0.3", port=endpoint.port) as first:
                outcomes.append(await outcome(client))
                assert (first.connections, endpoint.connections) == (0, 2)
            return outcomes

    with ScriptedEndpoint(CLOSING) as endpoint:
        assert uvloop.run(post()) == [Answer(200, None, "")] * 2


def test_an_address_that_takes_no_connection_is_passed_over_and_comes_last_then():
    zone = Zone(["127.0.0.3", "127.0.0.1"])
    post_while_the_first_listens_late(zone)
    assert zone.asked == ["hook.example"]


def test_an_address_that_is_silent_leaves_time_for_the_next():
    zone = Zone(["127.0.0.3", "127.0.0.1"])
    with ScriptedEndpoint() as endpoint, silent(endpoint.port, "127.0.0.3"):
        outcomes = posted(endpoint, b"1", host="hook.example", resolve=zone, timeout="600ms")
    assert outcomes == [Answer(200, None, "")]


def test_an_address_that_took_no_connection_comes_last_also_when_the_name_is_asked_for_again(monkeypatch):
    """Each connection of a route with few events would wait for it first."""
    monkeypatch.setattr(names, "_KEPT_S", 0.0)
    zone = Zone(["127.0.0.3", "127.0.0.1"])
    post_while_the_first_listens_late(zone)
    assert zone.asked == ["hook.example"] * 2


def test_of_many_addresses_those_of_both_protocols_are_tried():
    zone = Zone([*[f"::ffff:127.0.1.{number}" for number in range(1, 9)], "127.0.0.1"])
    with ScriptedEndpoint() as endpoint:
        assert posted(endpoint, b"1", host="hook.example", resolve=zone) == [Answer(200, None, "")]


def test_a_link_local_address_keeps_its_zone():
    found = [(socket.AF_INET6, socket.SOCK_STREAM, 6, "", ("fe80::1", 80, 0, 4))]
    with mock.patch.object(socket, "getaddrinfo", lambda *_, **__: found):
        (place,) = uvloop.run(names.resolve_by_system("fe80::1%eth0", 80))
    assert place.address[0] == "fe80::1%4"  # uvloop leaves out what follows the port
    with pytest.raises(ConfigError, match="fe80::1 is link-local"):
        addresses.public("hook.example", [place.ip], "expel.acme")


def test_a_name_is_asked_for_again_after_a_refused_connection():
    zone = Zone(["127.0.0.3"], ["127.0.0.1"])
    with ScriptedEndpoint(closes, answers()) as endpoint:
        refused, closed, answered = posted(endpoint, b"1", b"2", b"3", host="hook.example", resolve=zone)
    assert (refused.reason, refused.may_have_arrived) == (f"127.0.0.3:{endpoint.port}: connection refused", False)
    assert closed.may_have_arrived  # it took the connection: the address is as good as it was
    assert answered.status == 200
    assert zone.asked == ["hook.example"] * 2


@pytest.mark.parametrize("failure", [socket.gaierror(socket.EAI_NONAME, "Name or service not known"), OSError("down")])
def test_a_name_that_is_not_found_is_no_answer_and_asked_for_again(failure):
    zone = Zone(failure, failure, ["127.0.0.1"])
    with ScriptedEndpoint() as endpoint:
        first, second, third = posted(endpoint, b"1", b"2", b"3", host="hook.example", resolve=zone)
    assert first.reason == f"the name hook.example was not found: {failure.strerror or failure}"
    assert not second.may_have_arrived
    assert third.status == 200


def test_a_silent_name_server_is_asked_once_and_bounded_by_the_timeout():
    asked = []

    async def never(name, _port):
        asked.append(name)
        await asyncio.Event().wait()

    async def post():
        async with client_of("http://hook.example/", resolve=never, timeout="300ms") as client:
            return await asyncio.gather(*[outcome(client) for _ in range(4)])

    outcomes = uvloop.run(post())
    assert [(type(none), str(none), none.may_have_arrived) for none in outcomes] == [
        (NoAnswer, "no address of hook.example within 0.3 s", False)
    ] * 4
    assert asked == ["hook.example"]


AWAY = socket.gaierror(socket.EAI_AGAIN, "Temporary failure in name resolution")


def test_while_no_name_server_answers_the_last_known_address_serves(monkeypatch):
    monkeypatch.setattr(names, "_KEPT_S", 0.0)
    zone = Zone(["127.0.0.1"], AWAY, OSError("down"), ["127.0.0.3"])
    with ScriptedEndpoint(CLOSING) as endpoint:
        *answered, moved = posted(endpoint, *[b"1"] * 4, host="hook.example", resolve=zone)
    assert answered == [Answer(200, None, "")] * 3
    assert moved.reason == f"127.0.0.3:{endpoint.port}: connection refused"


def test_while_a_name_server_is_silent_the_last_known_address_serves(monkeypatch):
    monkeypatch.setattr(names, "_KEPT_S", 0.0)
    monkeypatch.setattr(names, "_PATIENCE", 0.0)
    asked = []

    async def once(name, port):
        asked.append(name)
        if len(asked) > 1:
            await asyncio.Event().wait()
        return [Place(socket.AF_INET, ("127.0.0.1", port))]

    with ScriptedEndpoint(CLOSING) as endpoint:
        outcomes = posted(endpoint, b"1", b"2", b"3", host="hook.example", resolve=once)
    assert outcomes == [Answer(200, None, "")] * 3
    assert asked == ["hook.example"] * 2


def test_the_last_known_address_serves_for_a_bounded_time(monkeypatch):
    monkeypatch.setattr(names, "_KEPT_S", 0.0)
    monkeypatch.setattr(names, "_LAST_KNOWN_S", 0.0)
    with ScriptedEndpoint(CLOSING) as endpoint:
        first, second = posted(endpoint, b"1", b"2", host="hook.example", resolve=Zone(["127.0.0.1"], AWAY))
    assert first.status == 200
    assert second.reason == f"the name hook.example was not found: {AWAY.strerror}"


@pytest.mark.parametrize("answer", [socket.gaierror(socket.EAI_NONAME, "Name or service not known"), []])
def test_of_a_name_that_was_taken_away_the_last_known_address_does_not_serve(monkeypatch, answer):
    monkeypatch.setattr(names, "_KEPT_S", 0.0)
    with ScriptedEndpoint(CLOSING) as endpoint:
        zone = Zone(["127.0.0.1"], answer, AWAY)
        outcomes = posted(endpoint, b"1", b"2", b"3", host="hook.example", resolve=zone)
        assert endpoint.connections == 1
    assert [type(one) for one in outcomes] == [Answer, NoAnswer, NoAnswer]


def test_the_system_is_asked_off_the_loop_and_knows_no_such_name():
    async def post():
        async with client_of("http://no.such.name.invalid/", timeout="60s") as client:
            return await outcome(client)

    none = uvloop.run(post())
    assert none.reason.startswith("the name no.such.name.invalid was not found: ")
    assert not none.may_have_arrived
