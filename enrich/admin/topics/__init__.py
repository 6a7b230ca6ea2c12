"""The topics that a pipeline needs, compared with those that exist: planned, applied, checked."""
