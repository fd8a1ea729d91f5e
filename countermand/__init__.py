"""Teams of LLM agents whose tool calls are steps of Temporal sagas."""
