"""Starts servers, recognises them as ours, watches and ends them; their logs; signals during a start.

It may use `servers`.
"""
