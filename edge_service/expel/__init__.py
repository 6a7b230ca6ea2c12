"""Delivers the events of a topic to an HTTP endpoint.

`route` is a route and `lane` its way: which requests go when, and what becomes of them. The lane uses `events` (what a
request is made of), `outcomes` (what an answer means), `order` (of keys), `breaker` and `limits` (how much an endpoint
gets), `outbox` (retry topics and the DLQ) and `http` (the client). `streaming` joins the lane's loop with the route's
consumer, which is in `enrich.delivery`, as are `holds`; `waiting_events` finds what waits in retry topics.
"""
