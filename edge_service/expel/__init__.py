"""Delivers the events of a topic to an HTTP endpoint.

`window` says up to where a partition is settled, `addresses` where it may be connected to, `signatures` signs requests,
`retry_after` reads what an endpoint wishes.
"""
