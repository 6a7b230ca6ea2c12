"""The observer's page: a server of its own, what its API says, and the files that a browser loads from it.

Shows no payloads and no secrets: only what verdicts and statuses hold. It asks nobody; it is given what it shows.
"""
