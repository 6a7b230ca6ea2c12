"""Who may send what, and how much: tokens of the configuration, or tenants of a table."""
