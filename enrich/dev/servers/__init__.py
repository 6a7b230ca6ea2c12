"""The servers of the embedded stack: what each is started with, on which ports, and how it says that it answers.

It may use `base` and the archives of `jars`; it starts nothing by itself.
"""
