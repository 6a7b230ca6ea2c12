"""Tables whose rows are loaded when somebody asks for them. Only the agent connects to their source.

`keeper` is the table: it publishes what came and removes what is not kept. `loads` has what is wanted; the
refresh-after-write cache in it decides what is loaded and when. `fetching` asks for one row, `paced` bounds how often,
`preloading` reads the keys that are wanted at the start, `wire` is how readers say what they need.
"""
