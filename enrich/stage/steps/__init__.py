"""What Python workers do to a batch of events, one step after the other: read, compute, look up, write.

Steps that follow each other become one operator of Spark (`enrich.stage.plan.operators`). They travel from the driver
to the workers, so this room imports what only workers need where it is used. It must not use `plan` or `run`.
"""
