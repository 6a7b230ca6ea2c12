"""The way of a route's events to its endpoint: which requests go when, and what becomes of them. It reads no topic.

`lane` uses `events` (what a request is made of), `outcomes` (what an answer means), `order` (of keys), `breaker` and
`limits` (how much an endpoint gets), `outbox` (retry topics and the DLQ), and the client in `enrich.endpoints.http`.
"""
