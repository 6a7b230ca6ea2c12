"""Agents under test, and how they end."""
