"""What values may be, whatever section they stand in: durations, sizes, columns, encodings, addresses.

It may use `messages`.
"""
