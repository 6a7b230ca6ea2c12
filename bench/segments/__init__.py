"""Mapped segments by themselves, without an agent or a broker."""
