"""The service that moves data between topics and external stores, both ways. Not built yet: see CHANGELOG."""
