"""What every long-running program shares: its HTTP server and its metrics, and how requests are signed.

May import `base`.
"""
