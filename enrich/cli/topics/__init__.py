"""`enrich topics`: plans, creates and checks topics, and moves tables from one topic to another."""
