"""What the Makefile runs: set-up, lock files, checks."""
