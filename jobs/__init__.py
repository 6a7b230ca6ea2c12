"""Entry points that Spark starts (`spark-submit jobs/...`), thin. The command line starts them, never imports them."""
