"""Delivers the events of a topic to an HTTP endpoint.

`window` says up to where a partition is settled, `breaker` and `limits` when a request may be sent, `addresses` where
to, `retry_after` reads what an endpoint wishes. Requests are signed by `enrich.service.signatures`.
"""
