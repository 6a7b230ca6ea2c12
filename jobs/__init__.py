"""Thin programs that Spark starts (`spark-submit jobs/...`). The command line starts them and must not import them."""

from enrich.base.interrupts import quiet_ctrl_c

# Before anything else is imported, which takes a second or two.
quiet_ctrl_c()
