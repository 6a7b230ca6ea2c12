"""A receiver can tell that a request is ours, whole and new, and goes on doing so while a secret is replaced."""

import base64

import pytest

from enrich.base.errors import ConfigError
from enrich.service.signatures import Signer, verifies

OLD, NEW = ("whsec_" + base64.b64encode(bytes([n]) * 32).decode() for n in (1, 2))


def test_it_is_the_standards_signature():
    # Computed with openssl: printf 'msg_1.1700000000.{"a":1}' | openssl dgst -sha256 -hmac KEY -binary | base64
    headers = Signer([OLD], "").headers("msg_1", 1_700_000_000, b'{"a":1}')
    assert headers == {
        "webhook-id": "msg_1",
        "webhook-timestamp": "1700000000",
        "webhook-signature": "v1,3tN+SMwreJINGaFSPFdhMpE4XGSVaCkC9ee+KquMGGQ=",
    }


def test_with_two_secrets_either_verifies():
    headers = Signer([OLD, NEW], "").headers("a/0/1", 5, b"body")
    assert verifies(OLD, headers, b"body")
    assert verifies(NEW, headers, b"body")


@pytest.mark.parametrize(
    "changed",
    [
        {"webhook-id": "a/0/2"},
        {"webhook-timestamp": "6"},
        {"webhook-timestamp": "x"},
        {"webhook-signature": ""},
        {"webhook-signature": "v1,AAAA"},
        {"webhook-signature": "v1,\xe4"},
    ],
)
def test_what_was_changed_does_not_verify(changed):
    headers = Signer([OLD], "").headers("a/0/1", 5, b"body")
    assert not verifies(OLD, {**headers, **changed}, b"body")
    assert not verifies(OLD, headers, b"bodx")
    assert not verifies(NEW, headers, b"body")
    assert not verifies(OLD, {}, b"body")


@pytest.mark.parametrize(
    "secret", ["", "whsec_", "whsec_!!!", "whsec_" + base64.b64encode(b"x" * 23).decode(), "password"]
)
def test_a_secret_that_is_none_is_refused_without_being_quoted(secret):
    with pytest.raises(ConfigError, match="base64 of 24 to 64 random bytes") as raised:
        Signer([secret], "expel.acme.to.http.secret")
    key = secret.removeprefix("whsec_")
    assert not key or key not in str(raised.value)
