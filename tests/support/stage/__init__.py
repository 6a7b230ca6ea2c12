"""Stages under test: the program, runs in one session, events, and what must become of them."""
