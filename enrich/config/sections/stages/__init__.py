"""The section `stages`."""
