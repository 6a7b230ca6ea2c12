"""HTTP/1.1 within bounds: listens, reads requests and writes answers. It knows no entry and no topic."""
