"""Other people's HTTP endpoints: what their address means, whether it may be connected to, and who is believed there.

For whoever sends to them, and for `enrich doctor`, which looks whether it would work. `http` posts to them, and `pages`
reads rows from them; nothing beside these two opens a connection.
"""

from enrich.endpoints.addresses import public
from enrich.endpoints.certificates import Certificates, tls_reason
from enrich.endpoints.target import Target, bearer, target_of

__all__ = ["Certificates", "Target", "bearer", "public", "target_of", "tls_reason"]
