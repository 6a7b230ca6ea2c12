"""docker-compose.yml as data, with its variables filled in as Compose would do it."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any

from ruamel.yaml import YAML

OUR_IMAGE = "enrich"
_VARIABLE = re.compile(r"\$\{(\w+)(?::-([^}]*))?\}")


@dataclass(frozen=True)
class Published:
    """A port of a container that this machine offers."""

    address: str
    port: int
    container_port: int


@dataclass(frozen=True)
class Mount:
    source: str
    target: str
    options: tuple[str, ...]

    @property
    def is_file_of_the_repository(self) -> bool:
        return self.source.startswith((".", "/"))


@dataclass(frozen=True)
class Service:
    name: str
    raw: dict[str, Any]

    @property
    def image(self) -> str:
        return str(self.raw.get("image", ""))

    @property
    def image_name(self) -> str:
        return self.image.partition("@")[0].rpartition(":")[0] or self.image

    @property
    def is_ours(self) -> bool:
        return self.image_name == OUR_IMAGE or "build" in self.raw

    @property
    def command(self) -> tuple[str, ...]:
        return _words(self.raw.get("command", []))

    @property
    def health_check(self) -> tuple[str, ...]:
        """Its words, the first of which says how they are run: CMD or CMD-SHELL."""
        return _words(self.raw.get("healthcheck", {}).get("test", []))

    @property
    def environment(self) -> dict[str, str]:
        return {name: str(value) for name, value in self.raw.get("environment", {}).items()}

    @property
    def published(self) -> tuple[Published, ...]:
        return tuple(_published(str(text)) for text in self.raw.get("ports", []))

    @property
    def mounts(self) -> tuple[Mount, ...]:
        return tuple(_mount(text) for text in self.raw.get("volumes", []))

    @property
    def depends_on(self) -> dict[str, str]:
        """The condition that each service it waits for must meet."""
        wanted = self.raw.get("depends_on", {})
        if isinstance(wanted, list):
            return dict.fromkeys(wanted, "service_started")
        return {name: how["condition"] for name, how in wanted.items()}

    @property
    def strings(self) -> tuple[str, ...]:
        """Whatever may name another service."""
        return (*self.command, *self.health_check, *self.environment.values())


@dataclass(frozen=True)
class Compose:
    raw: dict[str, Any]

    @property
    def services(self) -> dict[str, Service]:
        return {name: Service(name, raw) for name, raw in self.raw["services"].items()}

    @property
    def volumes(self) -> frozenset[str]:
        return frozenset(self.raw.get("volumes", {}))

    @property
    def networks(self) -> frozenset[str]:
        return frozenset(self.raw.get("networks", {})) | {"default"}


def parse_yaml(text: str) -> dict[str, Any]:
    found: dict[str, Any] = YAML(typ="safe", pure=True).load(text)
    return found


def parse_compose(text: str, environment: Mapping[str, str] | None = None) -> Compose:
    return Compose(filled_in(parse_unfilled(text).raw, environment or {}))


def parse_unfilled(text: str) -> Compose:
    """With its variables as they are written."""
    return Compose(parse_yaml(text))


def variables(text: str) -> set[str]:
    """The variables that a user can set."""
    return {match[1] for match in _VARIABLE.finditer(text)}


def filled_in(value: Any, environment: Mapping[str, str]) -> Any:
    """Variables replaced, as Compose does it in its file, and we do it in ours."""
    if isinstance(value, str):
        filled = _VARIABLE.sub(lambda match: environment.get(match[1], match[2] or ""), value)
        return filled.replace("$$", "$")
    if isinstance(value, dict):
        return {key: filled_in(item, environment) for key, item in value.items()}
    if isinstance(value, list):
        return [filled_in(item, environment) for item in value]
    return value


def _words(value: str | list[Any]) -> tuple[str, ...]:
    # A text is one word: whoever reads it sees that it is not in exec form.
    return (value,) if isinstance(value, str) else tuple(str(word) for word in value)


def _published(text: str) -> Published:
    address, _, ports = text.rpartition(":")[0].rpartition(":")
    return Published(address, int(ports or 0), int(text.rpartition(":")[2]))


def _mount(text: str) -> Mount:
    source, target, *options = text.split(":")
    assert PurePosixPath(target).is_absolute(), f"a mount without a target: {text}"
    return Mount(source, target, tuple(options))
