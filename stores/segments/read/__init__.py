"""The readers of segments: mapped files, look-ups a batch at a time.

It may use `loops` and the files; of `write` nothing.
"""
