"""The servers of the embedded stack: how each is started, on which ports, and how to check that it answers.

It may use `base` and the archives of `jars`. It starts no processes itself.
"""
