"""Commands: how long people wait for them."""
