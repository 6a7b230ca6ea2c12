"""Posts requests to an endpoint over HTTP/1.1, each once, within a time, to an address that was checked.

`client` has the connections of a route, `connection` speaks HTTP on one, `names` finds addresses and has
`enrich.endpoints` check them. It knows neither routes nor Kafka.
"""

from enrich.endpoints.http.answer import Answer, NoAnswer
from enrich.endpoints.http.client import HttpClient
from enrich.endpoints.http.names import Place, Resolve

__all__ = ["Answer", "HttpClient", "NoAnswer", "Place", "Resolve"]
