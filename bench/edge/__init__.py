"""Events over HTTP: ingest, expel, and a whole chain of them."""
