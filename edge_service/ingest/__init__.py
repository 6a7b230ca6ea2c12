"""Takes events over HTTP and writes them to a topic. A 2xx: the in-sync replicas have every record of the request.

Folders, the lowest first: `wire` speaks HTTP within bounds, `reading` makes events of bodies, `senders` says who may
send, `entry` checks, writes and answers requests, `processes` serves entries in one process or in several.
"""
