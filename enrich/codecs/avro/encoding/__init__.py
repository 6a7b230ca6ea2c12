"""Avro that is written: rows one by one (`rows`), where each value has to fit its type (`fitting`), and columns as they
are (`writing`).

It may use `schemas`.
"""
