"""Values of events in columns: their fields are read, members are added and replaced, values become JSON text.

`fields` reads; what Arrow's parser cannot read it gives to `alone` (with `places`, `fitting`, `maps`) and `one_by_one`.
`text` writes values, `splicing` and `replacing` put them into events. It may use `task` and the codecs, and knows no
Spark.
"""
