"""Who decides: LangGraph graphs, the team, models, chat sessions, swarms."""
