"""What is shared: the Redis context cache and the servers over it."""
