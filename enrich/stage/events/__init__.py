"""Events in their formats: which fields they have, whether one can be used, and how it is written when it was enriched.

It may use `task` and the codecs.
"""
