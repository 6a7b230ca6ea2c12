"""Values of events in columns: their fields are read, members are added and replaced, values become JSON text.

It may use `task` and the codecs, and knows no Spark.
"""
