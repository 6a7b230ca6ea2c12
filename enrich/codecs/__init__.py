"""Formats: raw values to typed Arrow rows and back, a batch at a time. Knows no Kafka client and no store."""

from enrich.codecs.json import JsonDecoder

__all__ = ["JsonDecoder"]
