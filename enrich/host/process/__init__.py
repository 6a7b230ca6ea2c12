"""The agent's process: one store, one lock, one loop, until SIGTERM or until nobody needs it any more.

It may import every package of the host. Nothing imports it: `python -m enrich.host` starts it.
"""
