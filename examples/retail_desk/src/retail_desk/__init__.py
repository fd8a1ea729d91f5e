"""A shop's desk for Countermand: orders are looked up, changed and taken back over the shop's own database."""
