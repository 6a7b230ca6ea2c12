"""`enrich topics`: planned, made, checked, and tables moved from one to another."""
