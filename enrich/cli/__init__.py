"""The command `enrich`: one thin file per command group. Commands call the rooms below and render what they return.

Modules here must not import anything heavy at the top, so that `enrich --help` stays instant: a command imports what
it needs when it runs.
"""

from enrich.base.interrupts import quiet_ctrl_c

# Before typer, which keeps the hook that it finds.
quiet_ctrl_c()
