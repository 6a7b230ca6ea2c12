"""What stands between a client and a server: links that lose, slow, misname or watch, and hosts of the tests' own."""
