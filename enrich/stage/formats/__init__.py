"""The formats of events, for the plan: their fields, the step that reads them, and why an event cannot be used.

It may use `steps`, and none of the rooms above: `plan`, `run`.
"""
