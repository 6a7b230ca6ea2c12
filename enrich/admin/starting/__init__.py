"""Makes the first configuration file of a pipeline: from a file of metadata, and a few names.

`metadata` reads the file and `types` guesses its columns' types, `choices` checks the names and fills in the rest,
`page` writes it all as YAML that explains itself, `writing` puts it where nothing is lost.
"""
