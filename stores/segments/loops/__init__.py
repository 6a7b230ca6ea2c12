"""The compiled loops over rows and columns. Arrays in, arrays out; they know no files and no tables.

Only this package, `read.key_filter` and `read.networks` have compiled code; `compiled` says how it is made and cached.
"""
