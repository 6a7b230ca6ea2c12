"""Keeps tables as their topics are: loaded, followed, set aside, loaded anew. Each table has a keeper.

It may import `load`, `claims` and `ipc`; the agent's loop calls it.
"""
