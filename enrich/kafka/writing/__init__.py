"""Records on their way into a topic: delivered or said to be lost, all at once or not at all, and dead letters.

It may use `clients`.
"""
