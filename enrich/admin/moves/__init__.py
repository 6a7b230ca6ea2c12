"""`enrich topics rekey|copy`: a table moves to another topic, goes on after any kill, and is compared at the end."""
