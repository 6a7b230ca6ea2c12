"""The sections `tables`, `topics` and `snapshots`."""
