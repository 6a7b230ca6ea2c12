"""The YAML file: its tree with text positions, variables, and the schema files that it names.

May import `types` and `messages`; independent of the sections.
"""
