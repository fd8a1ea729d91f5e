"""What can be done: the tool registry, the tool packs, and the world they act on."""
