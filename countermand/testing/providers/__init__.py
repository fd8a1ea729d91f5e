"""A local server that speaks as model providers do, so that their real clients are tested."""

from countermand.testing.providers.server import Provider, serve_provider

__all__ = ["Provider", "serve_provider"]
