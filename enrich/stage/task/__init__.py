"""What the driver sends to its workers with each task, and what comes back: specs, pins, reports, failures.

Values that can be pickled. It may use the configuration and `stores.table`; no Spark, no store.
"""
