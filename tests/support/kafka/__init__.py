"""Topics and brokers under test, and a topic without brokers."""
