"""Converts JSON to columns and back, as docs/formats.md specifies.

`decoder` tries `fast` and falls back to `strict`, row by row; `values` converts single JSON values.
"""
