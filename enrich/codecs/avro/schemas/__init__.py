"""Avro schemas: where they come from, their types, and whether one can be read as another.

Must not import the decoder.
"""
