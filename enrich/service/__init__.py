"""What every long-running program shares: its HTTP server and its metrics. May import `base`."""
