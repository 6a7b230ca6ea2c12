"""What several rooms of benchmarks use: agents and their memory, topics filled with rows, and steady updates."""
