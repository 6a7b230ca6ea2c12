"""What is known of a partition: how far it is read, settled and written, and what is missing in it."""
