"""The section `sync`: sources, targets and the routes between them and the topics."""
