"""Error messages: with their position, in the file's words, and without secrets.

Must not import anything else of the configuration.
"""
