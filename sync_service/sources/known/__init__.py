"""What the topic of a source holds, and what an answer changes of it.

It may use a local store and the topic, and no external system.
"""
