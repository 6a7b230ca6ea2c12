"""The observer: says minute by minute, from what the nodes of a pipeline tell, what was lost and how late events were.

A program of its own. It may use `enrich`, and never the command line.
"""

from enrich.base.interrupts import quiet_ctrl_c

# Before anything else is imported, which takes a second or two.
quiet_ctrl_c()
