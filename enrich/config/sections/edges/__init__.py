"""The sections `ingest` and `expel`: events come in over HTTP, and go out over HTTP."""
