"""`enrich run|stop|package`: starts a stage, drains it, packs the environment for a cluster."""
