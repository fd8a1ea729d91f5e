"""What tests of agents and tools need: fixtures, scripted models, the tool contract."""
