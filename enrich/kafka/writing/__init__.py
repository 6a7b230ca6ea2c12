"""Producers: one that reports every failed delivery, transactional ones, and dead letters.

May import `clients`.
"""
