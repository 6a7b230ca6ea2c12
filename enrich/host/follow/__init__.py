"""A table as its topic is: loaded, followed, set aside, loaded anew; a keeper for each.

It may use `load`, `claims` and `ipc`; the agent's loop calls it.
"""
