"""The process that serves, the parent of several, and what they say of themselves."""
