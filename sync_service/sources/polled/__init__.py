"""External systems that are polled: a PostgreSQL table or view, Redis, the pages of an HTTP endpoint, a file.

`source` is their interface. They only read; `known` decides what an answer changes in the topic.
"""
