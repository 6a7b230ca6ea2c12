"""The agent's part in segments: it mirrors tables of its store in mapped segments, and builds those that are missing.

`keeper` is its life, `follower` what it hears of the store's publications, `bases` how a table is built anew from the
store's rows, in a process of its own; `compiled_code` where compiled loops are kept. Nothing here is imported before it
is needed: the engine (stores/segments) takes half a second.
"""
