"""Forwards events that could not be delivered, after the pause of the retry topic in which they wait."""
