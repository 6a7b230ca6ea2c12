"""The broker's second listener, as in production: encrypted (SASL_SSL), users by SCRAM, rights by ACLs.

Its self-signed certificate is made at the first start. It is also the CA certificate that clients need.
"""

import secrets
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from enrich.dev.servers.server import HOST, Command, Home, RunStep

PORT = "secure"
"""The name of its port. A stack that has this port is secure from then on."""
USER, GUEST = "enrich", "guest"
"""The user that may do everything, and the one that may do nothing until it is granted rights."""

_FOLDER, _STORE, _AUTHORITY, _PASSWORD = "secure", "server.p12", "ca.pem", "password"
_ENVIRONMENT = "ENRICH_STORE_PASSWORD"  # keytool's arguments would show it in `ps`
_ITERATIONS = 4096
_DEADLINE_S = 20.0

_SETTINGS = {
    "sasl.enabled.mechanisms": "SCRAM-SHA-512",
    "listener.name.secure.scram-sha-512.sasl.jaas.config": (
        "org.apache.kafka.common.security.scram.ScramLoginModule required;"
    ),
    "listener.name.secure.ssl.keystore.type": "PKCS12",
    "listener.name.secure.ssl.keystore.location": f"{_FOLDER}/{_STORE}",
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    # Clients of the plain listener may do everything, as on a broker without ACLs.
    "super.users": "User:ANONYMOUS",
    "allow.everyone.if.no.acl.found": "false",
}


@dataclass(frozen=True)
class Secure:
    """What a client needs to connect to the secure listener."""

    servers: str
    ca_file: Path
    username: str
    password: str


def of(home: Home) -> Secure | None:
    """None for a broker without this listener."""
    if PORT not in home.ports or not (home.folder / _FOLDER / _PASSWORD).is_file():
        return None
    folder = home.folder / _FOLDER
    return Secure(f"{HOST}:{home.ports[PORT]}", folder / _AUTHORITY, USER, _read(folder))


def settings(home: Home) -> Mapping[str, str]:
    """Settings for the broker's file, which contains the password and must be private. The folder must exist."""
    return {**_SETTINGS, "listener.name.secure.ssl.keystore.password": _read(home.folder / _FOLDER)}


def make_certificates(home: Home, run: RunStep, java: Path) -> None:
    """Makes key and certificate once for a stack, atomically. Raises StepFailed."""
    folder = home.folder / _FOLDER
    if folder.is_dir():
        return
    aside = home.folder / f"{_FOLDER}.new"
    shutil.rmtree(aside, ignore_errors=True)
    aside.mkdir(mode=0o700)
    password = secrets.token_urlsafe(24)
    (aside / _PASSWORD).touch(mode=0o600)
    (aside / _PASSWORD).write_text(password, encoding="utf-8")
    keytool = str(java.resolve().with_name("keytool"))
    common = ("-alias", "server", "-keystore", f"{aside.name}/{_STORE}", "-storepass:env", _ENVIRONMENT)
    names = ("-dname", "CN=enrich dev", "-ext", f"san=ip:{HOST},dns:localhost", "-ext", "bc:c=ca:true")
    key = ("-keyalg", "EC", "-groupname", "secp256r1", "-validity", "3650", "-storetype", "PKCS12")
    for arguments in (("-genkeypair", *key, *names), ("-exportcert", "-rfc", "-file", f"{aside.name}/{_AUTHORITY}")):
        run(Command((keytool, *arguments, *common), {_ENVIRONMENT: password}))
    aside.replace(folder)


def make_users(home: Home, plain_servers: str) -> None:
    """Creates users and rights through the plain listener. May be repeated. Raises Kafka's errors, mapped."""
    from confluent_kafka.admin import AdminClient
    from confluent_kafka.admin._scram import (
        ScramCredentialInfo,
        ScramMechanism,
        UserScramCredentialUpsertion,
    )

    from enrich.kafka.clients.errors import kafka_errors

    admin = AdminClient({"bootstrap.servers": plain_servers})
    info = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_512, _ITERATIONS)
    password = _read(home.folder / _FOLDER).encode()
    upserts: list[Any] = [UserScramCredentialUpsertion(user, info, password) for user in (USER, GUEST)]
    with kafka_errors("the users of the secure listener"):
        for futures in (
            admin.alter_user_scram_credentials(upserts, request_timeout=_DEADLINE_S),
            admin.create_acls(_all_rights(), request_timeout=_DEADLINE_S),
        ):
            for future in futures.values():
                future.result(_DEADLINE_S)


def _all_rights() -> list[Any]:
    from confluent_kafka.admin._acl import AclBinding, AclOperation, AclPermissionType
    from confluent_kafka.admin._resource import ResourcePatternType, ResourceType

    resources = [(ResourceType[name], "*") for name in ("TOPIC", "GROUP", "TRANSACTIONAL_ID")]
    return [
        AclBinding(
            kind, name, ResourcePatternType.LITERAL, f"User:{USER}", "*", AclOperation.ALL, AclPermissionType.ALLOW
        )
        for kind, name in (*resources, (ResourceType.BROKER, "kafka-cluster"))
    ]


def _read(folder: Path) -> str:
    return (folder / _PASSWORD).read_text(encoding="utf-8")
