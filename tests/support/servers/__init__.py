"""Servers that are killed, started again and scripted; and a browser."""
