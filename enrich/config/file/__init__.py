"""The YAML file itself: its tree with places, variables, the schema files that it names.

It may use `types` and `messages`, and knows no section.
"""
