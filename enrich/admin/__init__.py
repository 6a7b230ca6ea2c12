"""Administration: what a person on call and a deployment script do to topics, tables and dead letters.

`topics` makes and checks topics, `rows` changes and reads the records of tables, `letters` handles dead letters and
quarantined records, `moves` takes a table to another topic, `doctor` looks at everything a newcomer gets wrong.
The command line calls these rooms and renders what they return; nothing else calls them.
"""
