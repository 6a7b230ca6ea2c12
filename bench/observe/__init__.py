"""The observer, the tallies that it reads, and the rate that a chain can take."""
