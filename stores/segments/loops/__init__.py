"""The compiled loops over rows and columns. Arrays in, arrays out; they know no file and no table.

Only here, in `read.key_filter` and in `read.networks` is code compiled; `compiled` says how, and where it is kept.
"""
