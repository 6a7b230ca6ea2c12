"""How a server is started, recognised as ours, watched and ended; its logs, and Ctrl-C meanwhile.

It may use `servers`.
"""
