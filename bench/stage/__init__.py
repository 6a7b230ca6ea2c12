"""Stages on Spark, and those that do the same without local state."""
