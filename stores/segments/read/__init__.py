"""The readers of segments: mapped files, batched look-ups.

It may import `loops` and the modules of files, and nothing of `write`.
"""
