"""Tools that exist already as steps of a saga: langchain's, and an MCP server's."""

from countermand.tools.adapt.existing import Answer
from countermand.tools.adapt.langchain import from_langchain
from countermand.tools.adapt.mcp import from_mcp

__all__ = ["Answer", "from_langchain", "from_mcp"]
