"""How an endpoint is asked, from the section of the configuration that names it."""

from urllib.parse import urlsplit, urlunsplit

from enrich.config import HttpOrigin, Loader
from enrich.config.messages.masking import SecretAddress
from enrich.endpoints.pages.fetching import Request


def request_of(section: HttpOrigin | Loader, *, tries: int = Request.tries) -> Request:
    headers = {name: value.get_secret_value() for name, value in section.headers.items()}
    if section.token is not None:
        headers["authorization"] = f"Bearer {section.token.get_secret_value()}"
    return Request(headers, section.ca_file, section.timeout.total_seconds(), section.largest, tries)


def shown(address: SecretAddress) -> str:
    """The address for people, without its password; its query may have a key in it, too."""
    return urlunsplit(urlsplit(str(address))._replace(query=""))
