"""Gets schemas by id from a registry with Confluent's API."""

import base64
import http.client
import json
import ssl
import time
from collections.abc import Callable, Collection
from contextlib import closing, suppress
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, unquote, urlsplit

from enrich.base.addresses import in_url, place_of
from enrich.base.errors import BadRecord, ConfigError, Unreachable
from enrich.base.http_watch import Ended, watched
from enrich.codecs.avro.schemas.references import inlined

if TYPE_CHECKING:
    from enrich.config import Registry as RegistrySection

_LARGEST = 4 * 2**20
_UNKNOWN = (40401, 40402, 40403)  # the API's codes for subject, version, schema; another server has none of them
_DEADLINE_S = 10.0
_MOST_IDS = 2**31
"""Of Confluent's registry. To it a path with a larger one, as any bytes in a topic may have, leads nowhere: it answers
as where it is not."""


@dataclass(frozen=True)
class RegistryAccess:
    """Address and credentials of the registry."""

    url: str = field(repr=False)  # it may contain a password
    username: str | None = None
    password: str | None = field(default=None, repr=False)
    ca_file: str | None = None
    cert_file: str | None = None
    key_file: str | None = None


def access_of(section: "RegistrySection") -> RegistryAccess:
    return RegistryAccess(
        url=section.url.get_secret_value(),
        username=section.username,
        password=None if section.password is None else section.password.get_secret_value(),
        ca_file=section.ca_file,
        cert_file=section.cert_file,
        key_file=section.key_file,
    )


class Registry:
    """A `SchemaSource`. Raises ConfigError for an invalid address or unusable files."""

    def __init__(self, access: RegistryAccess, *, deadline_s: float = _DEADLINE_S) -> None:
        self._deadline_s = deadline_s
        address = urlsplit(access.url)
        try:
            port = address.port
        except ValueError:
            raise ConfigError("the port in the schema registry's address is not a number from 0 to 65535") from None
        if address.scheme not in ("http", "https") or not address.hostname:
            raise ConfigError("the schema registry's address must start with http:// or https:// and name a host")
        self._host, self._port = place_of(address)
        self._path = address.path.rstrip("/")
        self._where = f"{address.scheme}://{in_url(self._host)}" + (f":{port}" if port else "") + self._path
        self._tls = _tls(access) if address.scheme == "https" else None
        self._headers = {"Accept": "application/vnd.schemaregistry.v1+json, application/json"}
        username = access.username or unquote(address.username or "")
        password = access.password or unquote(address.password or "")
        if username:
            login = base64.b64encode(f"{username}:{password}".encode()).decode()
            self._headers["Authorization"] = f"Basic {login}"

    def get(self, schema_id: int) -> str:
        end = time.monotonic() + self._deadline_s
        what = f"schema id {schema_id}"
        unknown = _UNKNOWN if schema_id < _MOST_IDS else (*_UNKNOWN, int(HTTPStatus.NOT_FOUND))
        answer = self._answer(f"/schemas/ids/{schema_id}", what, end, unknown=unknown)
        try:
            return inlined(
                self._avro(answer, what),
                self._references(answer),
                lambda reference: self._referenced(reference, what, end),
            )
        except ValueError as error:  # JSON's errors are ValueErrors too
            raise BadRecord(f"{what} cannot be read: {error}") from None

    def require(self) -> None:
        """Raises Unreachable if it does not answer, ConfigError if it refuses us or is not a registry."""
        with suppress(BadRecord):  # the expected answer: there is no such schema
            self._answer("/schemas/ids/0", "schema id 0", time.monotonic() + self._deadline_s)

    def latest(self, subject: str) -> tuple[int, str]:
        """The id and the text of the subject's newest schema. Raises ConfigError if it has none."""
        try:
            schema_id = self._newest(subject)
        except BadRecord as error:
            raise _no_schema(error, f"register a schema for {subject}") from None
        return self._of(subject, schema_id)

    def latest_or_new(self, subject: str, new: Callable[[], str]) -> tuple[int, str]:
        """The same; if there is no such subject, registers the schema that `new` makes. Raises ConfigError if the
        registry does not take it."""
        try:
            schema_id = self._newest(subject)
        except BadRecord:
            schema = new()
            # If it was registered meanwhile the answer is its id.
            return self._registered(subject, schema, f"the schema that the stage made for {subject}"), schema
        return self._of(subject, schema_id)

    def register(self, subject: str, schema: str) -> int:
        """The id of this schema, registered as the subject's newest if it has it not yet. Raises ConfigError if the
        subject's compatibility does not allow it."""
        what = f"the schema that the columns give for {subject}: it may not follow the one before"
        return self._registered(subject, schema, what)

    def _registered(self, subject: str, schema: str, what: str) -> int:
        body, end = json.dumps({"schema": schema}).encode(), time.monotonic() + self._deadline_s
        return self._id(self._answer(f"/subjects/{quote(subject, safe='')}/versions", what, end, body))

    def _newest(self, subject: str) -> int:
        """Raises BadRecord if there is no such subject."""
        end = time.monotonic() + self._deadline_s
        return self._id(self._answer(f"/subjects/{quote(subject, safe='')}/versions/latest", f"subject {subject}", end))

    def _of(self, subject: str, schema_id: int) -> tuple[int, str]:
        try:
            return schema_id, self.get(schema_id)
        except BadRecord as error:
            raise _no_schema(error, f"{subject} needs an avro schema") from None

    def _id(self, answer: dict[str, Any]) -> int:
        schema_id = answer.get("id")
        if not isinstance(schema_id, int):
            raise self._no_registry("a schema without an id")
        return schema_id

    def _referenced(self, reference: Any, what: str, end: float) -> tuple[str, list[Any]]:
        try:
            subject, version = quote(reference["subject"], safe=""), int(reference["version"])
        except (KeyError, TypeError, ValueError):
            raise self._no_registry("a reference without a subject and a version") from None
        answer = self._answer(f"/subjects/{subject}/versions/{version}", what, end)
        return self._avro(answer, what), self._references(answer)

    def _avro(self, answer: dict[str, Any], what: str) -> str:
        kind = answer.get("schemaType") or "AVRO"
        if kind != "AVRO":
            raise BadRecord(f"{what} is of type {kind}, not avro")
        schema = answer.get("schema")
        if not isinstance(schema, str):
            raise self._no_registry("an answer without a schema")
        return schema

    def _references(self, answer: dict[str, Any]) -> list[Any]:
        references = answer.get("references") or []
        if not isinstance(references, list):
            raise self._no_registry("references that are not a list")
        return references

    def _answer(
        self, path: str, what: str, end: float, content: bytes | None = None, *, unknown: Collection[int] = _UNKNOWN
    ) -> dict[str, Any]:
        """With `content` it is posted. `unknown`: the codes by which it says that there is no such thing."""
        status, body = self._ask(path, end, content)
        try:
            answer = json.loads(body)
        except (ValueError, RecursionError):
            answer = None
        code = answer.get("error_code") if isinstance(answer, dict) else None
        if status == HTTPStatus.NOT_FOUND and code in unknown:
            raise BadRecord(f"{what} is not in the schema registry", where=self._where)
        if status in (HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN):
            raise ConfigError(
                f"the schema registry refuses us with status {status}",
                where=self._where,
                next_step="check kafka.registry.username and password, and the user's rights",
            )
        if status in (HTTPStatus.CONFLICT, HTTPStatus.UNPROCESSABLE_ENTITY) and content is not None:
            raise ConfigError(
                f"the schema registry refuses {what}, with status {status}",
                where=self._where,
                next_step="register a schema that it takes",
            )
        if status in (HTTPStatus.REQUEST_TIMEOUT, HTTPStatus.TOO_MANY_REQUESTS) or status >= 500:
            raise Unreachable(f"the schema registry answered with status {status}", where=self._where)
        if status != HTTPStatus.OK or not isinstance(answer, dict):
            raise self._no_registry(f"status {status}")
        return answer

    def _no_registry(self, got: str) -> ConfigError:
        return ConfigError(
            f"this is not the answer of a schema registry: {got}",
            where=self._where,
            next_step="check kafka.registry.url; it includes the path of the Confluent API",
        )

    def _ask(self, path: str, end: float, content: bytes | None) -> tuple[int, bytes]:
        # http.client with a connection per request: there are few, and urllib would use HTTP_PROXY.
        late = f"the schema registry did not answer within {self._deadline_s:g} s"
        try:
            with (
                watched(lambda: late if time.monotonic() > end else None) as within,
                closing(self._connection(max(end - time.monotonic(), 0.001))) as connection,
            ):
                within.connect(connection)
                if content is None:
                    connection.request("GET", self._path + path, headers=self._headers)
                else:
                    headers = {**self._headers, "Content-Type": "application/vnd.schemaregistry.v1+json"}
                    connection.request("POST", self._path + path, content, headers)
                with closing(connection.getresponse()) as response:
                    return response.status, self._body(response)
        except Ended as ended:
            raise Unreachable(str(ended), where=self._where) from None
        except ssl.SSLCertVerificationError as error:
            raise ConfigError(
                f"the schema registry's certificate is not trusted: {error.verify_message}",
                where=self._where,
                next_step="check kafka.registry.ca_file",
            ) from None
        except (OSError, http.client.HTTPException) as error:
            reason = getattr(error, "strerror", None) or str(error) or type(error).__name__
            raise Unreachable(f"the schema registry did not answer: {reason}", where=self._where) from error

    def _body(self, response: http.client.HTTPResponse) -> bytes:
        body = bytearray()
        while chunk := response.read1(2**16):
            body += chunk
            if len(body) > _LARGEST:
                raise self._no_registry(f"more than {_LARGEST // 2**20} MiB")
        return bytes(body)

    def _connection(self, timeout: float) -> http.client.HTTPConnection:
        if self._tls is None:
            return http.client.HTTPConnection(self._host, self._port, timeout=timeout)
        return http.client.HTTPSConnection(self._host, self._port, timeout=timeout, context=self._tls)


def _no_schema(error: BadRecord, next_step: str) -> ConfigError:
    return ConfigError(error.what, where=error.where, next_step=next_step)


def _tls(access: RegistryAccess) -> ssl.SSLContext:
    try:
        context = ssl.create_default_context(cafile=access.ca_file)
        if access.cert_file is not None:
            # OpenSSL would ask for a password on the terminal; this refuses encrypted keys instead.
            context.load_cert_chain(access.cert_file, access.key_file, password=lambda: "")
    except (OSError, ValueError) as error:
        raise ConfigError(
            f"the files for the schema registry cannot be used: {error}",
            next_step="check kafka.registry.ca_file, cert_file and key_file: PEM, the key unencrypted",
        ) from None
    return context
