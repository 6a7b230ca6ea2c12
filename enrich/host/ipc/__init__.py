"""What the agent and the other processes of its host share: paths, lock, header, leases, socket, requests.

It imports no other package of the host. Readers, commands and stages use it.
"""
