"""`enrich run|stop|package`: a stage is started, told to drain, and packed for a cluster."""
