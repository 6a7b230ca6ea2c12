"""`enrich dlq` and `enrich quarantine`: show rejected records, send them back, remove them."""
