"""The servers that development needs, each its own process."""
