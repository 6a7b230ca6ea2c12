"""`enrich topics rekey|copy`: moves a table to another topic, resumes after any kill, and compares both at the end."""
