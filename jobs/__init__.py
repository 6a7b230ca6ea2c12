"""Thin programs that Spark starts (`spark-submit jobs/...`). The command line starts them and must not import them."""
