"""The section `masks`: what becomes of each column of an event before a stage does anything with it."""
