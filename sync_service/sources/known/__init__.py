"""What is known of a source's topic, and what an answer of the source changes in it.

It may use a local store and the topic, but no external system.
"""
