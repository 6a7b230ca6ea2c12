"""Topics as a pipeline needs them, beside those that are: planned, applied, checked."""
