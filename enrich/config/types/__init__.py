"""Types of values, independent of sections: durations, sizes, columns, encodings, addresses.

It may use `messages`.
"""
