"""The sections of a pipeline: the model of each and, if keys depend on each other, its rules.

May import `types` and `messages`. A section does not depend on the file that it is read from.
"""
