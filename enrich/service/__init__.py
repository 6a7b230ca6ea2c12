"""What every long-running program shares: its page over HTTP, and its metrics. It may use `base`."""
