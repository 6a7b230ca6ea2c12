"""Delivers the events of a topic to an HTTP endpoint.

`window` says up to where a partition is settled, `breaker` and `limits` when a request may be sent, `addresses` where
to, `signatures` signs requests, `retry_after` reads what an endpoint wishes.
"""
