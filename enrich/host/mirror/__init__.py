"""The agent's side of segments: mirrors tables of its store in mapped segments, and builds those that are missing.

`keeper` is the thread that does it, `follower` passes on the store's publications, `bases` builds a table anew from the
store's rows in a process of its own, `compiled_code` says where compiled loops are kept. The engine (stores/segments)
must not be imported before it is needed: the import takes half a second.
"""
