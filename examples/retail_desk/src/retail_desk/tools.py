"""The whole pack: import this module, and every tool of the desk is declared."""

from retail_desk import customers, deliveries, handovers, lookups, orders

__all__ = ["customers", "deliveries", "handovers", "lookups", "orders"]
