"""Checks addresses that may contain a password, so that every program parses them in the same way.

Parts of a password with `/`, `#` or `@` would be taken for a host, port or path, and these are shown in messages.
"""

import re
from urllib.parse import urlsplit

_LARGEST_PORT = 65_535
_ESCAPES = "in a password write / as %2F, @ as %40, : as %3A, # as %23, ? as %3F, [ as %5B, ] as %5D, % as %25"


# Any other name before a = is more likely a part of a password, and clients do not report unknown names well.
_OF_REDIS = """
    client_name db health_check_interval password protocol socket_connect_timeout socket_timeout username
    ssl_ca_certs ssl_ca_path ssl_cert_reqs ssl_certfile ssl_check_hostname ssl_keyfile ssl_password
"""
_OF_POSTGRES = """
    application_name channel_binding client_encoding connect_timeout dbname fallback_application_name gssdelegation
    gssencmode gsslib host hostaddr keepalives keepalives_count keepalives_idle keepalives_interval krbsrvname
    load_balance_hosts max_protocol_version min_protocol_version oauth_client_id oauth_client_secret oauth_issuer
    oauth_scope options passfile password port replication require_auth requirepeer scram_client_key scram_server_key
    service ssl_max_protocol_version ssl_min_protocol_version sslcert sslcertmode sslcompression sslcrl sslcrldir sslkey
    sslkeylogfile sslmode sslnegotiation sslpassword sslrootcert sslsni target_session_attrs tcp_user_timeout user
"""
_UNKNOWN = "the address has a name before a = that is not a setting of {}"

# name=value, the value plain or in quotes, a backslash before what is meant as it is.
_VALUE = r"\s*=\s*(?:'(?:\\.|[^'\\])*'|(?:\\.|[^\s'\\])*)"
_PAIR = rf"\w+{_VALUE}"
_NAME = re.compile(rf"(\w+){_VALUE}", re.DOTALL)
_HOST = re.compile(rf"(\w+)({_VALUE})", re.DOTALL)
_OF_TWO_MEANINGS = "\u00df\u1e9e\u03c2\u200c\u200d"
"""In names of hosts. Python follows the old rules (IDNA 2003), reads ss for the first, and would go to somebody else's
host; browsers do not."""
_PAIRS = re.compile(rf"\s*{_PAIR}(?:\s+{_PAIR})*\s*", re.DOTALL)


def why_unusable(address: str) -> str | None:
    """Why an address cannot be parsed unambiguously; None if it can. Never shows any part of it."""
    if re.match(r"[a-z]+://", address):
        return _why_no_url(address)
    if _PAIRS.fullmatch(address) is None:
        return "the text is not a list of name=value: put a value with spaces or quotes in quotes, 'it\\'s so'"
    if not set(_NAME.findall(address)) <= set(_OF_POSTGRES.split()):
        return f"{_UNKNOWN.format('PostgreSQL')}; put a password with spaces or quotes in quotes, 'it\\'s so'"
    hosts = [value.strip(" ='") for name, value in _HOST.findall(address) if name == "host"]
    return _why_no_name(",".join(hosts))


def _why_no_url(address: str) -> str | None:
    _, _, rest = address.partition("://")
    authority = re.split(r"[/?#]", rest, maxsplit=1)[0]
    login, at, hosts = authority.rpartition("@")
    if "@" in login or "@" in rest[len(authority) :] or re.search(r"[\[\]]", login):
        return f"the address has an @ or a bracket where none can be: {_ESCAPES}"
    if "#" in rest:  # some parsers end the address here, libpq takes it for any character
        return f"the address has a # where none can be: {_ESCAPES}"
    if re.search(r"%(?![0-9A-Fa-f]{2})", rest):
        return f"the address has a % that is not followed by two hexadecimal digits: {_ESCAPES}"
    wrong = [host for host in hosts.split(",") if not _has_port(host)]
    if wrong:
        bare = ", or an IPv6 address stands without brackets" if any(host.count(":") > 1 for host in wrong) else ""
        return f"the port is no number from 1 to {_LARGEST_PORT}{bare}" + ("" if at else f"; {_ESCAPES}")
    why_no_name = _why_no_name(re.sub(r":[0-9]*(?=,|$)", "", hosts))
    if why_no_name is not None:
        return why_no_name
    path = rest[len(authority) :].partition("?")[0]
    if address.startswith(("redis://", "rediss://")) and not re.fullmatch(r"/?|/[0-9]+", path):
        return "what follows the host is no number of a database"  # the client would take number 0 for it
    query = rest.partition("?")[2]
    if query and not all(re.match(r"\w+=", pair) for pair in query.split("&")):
        return f"what follows the ? is not a list of name=value: {_ESCAPES}, & as %26"
    if query and not address.startswith("http"):
        store, known = ("PostgreSQL", _OF_POSTGRES) if address.startswith("postgres") else ("Redis", _OF_REDIS)
        if not {pair.partition("=")[0] for pair in query.split("&")} <= set(known.split()):
            return f"{_UNKNOWN.format(store)}; {_ESCAPES}, & as %26"
    try:
        urlsplit(address)
    except ValueError:  # its text would show the login
        return f"the address has characters that no address can have; {_ESCAPES}"
    return None


def _why_no_name(hosts: str) -> str | None:
    """Why one of these cannot be looked up, as far as that shows. Clients do not report it well."""
    for host in hosts.split(","):
        if not host or host[0] in "[/@%":  # an address, or a socket's directory
            continue
        if set(host) & set(_OF_TWO_MEANINGS):
            return "the host's name has a letter that programs read in two ways, ß or ς: write it in ASCII, xn--..."
        try:
            host.encode("idna")
        except UnicodeError:
            if not host.isascii():
                return "the host's name has letters that cannot be looked up: write it in ASCII, xn--..."
            return (
                "the host's name has an empty part, or one of more than 63 letters: perhaps a variable in it is empty"
            )
    return None


def _has_port(host: str) -> bool:
    """Whether the port, where there is one, is one."""
    name, colon, port = host.rpartition(":")
    if not colon or host.endswith("]"):
        return True
    if ":" in name and not name.endswith("]"):
        return False  # an IPv6 address without brackets, or something else
    return port == "" or (port.isascii() and port.isdigit() and 0 < int(port[:6]) <= _LARGEST_PORT)
