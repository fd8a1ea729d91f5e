"""What goes over the wire, a module a provider."""
