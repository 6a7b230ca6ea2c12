"""Where records go that are not delivered: the topics for them, dead letters, and a file if the DLQ refuses."""
