"""The world: a simulator of the downstream providers, with the rules of the real ones."""
