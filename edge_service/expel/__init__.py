"""Delivers the events of a topic to an HTTP endpoint.

`route` is a route, `lane` its way to the endpoint. `streaming` joins the lane's loop with the route's consumer, which
is in `enrich.delivery`, as are `holds`; `waiting_events` finds what waits in retry topics.
"""
