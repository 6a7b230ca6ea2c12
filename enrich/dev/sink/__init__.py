"""A receiver of webhooks for trying things and for tests: `enrich dev sink`. It counts, checks, and misbehaves as told.

`connection` speaks HTTP, `receiver` decides what becomes of a request, `behaviour` says how to answer it, `seen` counts
what came, `bodies` takes it apart, `control` lets others steer at run time, `serving` runs it all.
"""

from enrich.dev.sink.behaviour import Behaviours, Ending, Rule, rules_from
from enrich.dev.sink.receiver import Receiver, ReceiverPlan
from enrich.dev.sink.serving import Listening, serve

__all__ = ["Behaviours", "Ending", "Listening", "Receiver", "ReceiverPlan", "Rule", "rules_from", "serve"]
