"""How what is wrong is said: with its place, in the words of the file, and without a secret.

It may use nothing else of the configuration.
"""
