"""What the agent and the other processes of its host share: paths, lock, header, leases, socket, requests.

It may use no other room of the host. Commands and stages use it as readers do.
"""
