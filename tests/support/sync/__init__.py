"""The sync service under test, with its sources and what audits them."""
