"""The external systems that are asked again and again: a PostgreSQL table or view, a file.

`source` is their interface. They read; what an answer means for the topic is decided beside them.
"""
