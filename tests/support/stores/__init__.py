"""Engines under test: models of them, their rows, and their directories."""
