"""The sections of a pipeline: of each its model and, where keys must fit together, its rules.

It may use `types` and `messages`. What a section is does not depend on the file in which it stands.
"""
