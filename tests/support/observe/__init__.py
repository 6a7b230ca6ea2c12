"""A pipeline of played nodes, and what they say of their events."""
