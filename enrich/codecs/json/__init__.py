"""JSON to columns, and columns to JSON. A field means here what docs/formats.md says, whoever asks.

`decoder` tries `fast` and falls back to `strict`, row by row; `values` is what a JSON value may become.
"""
