"""Runs as bundles: recorded from Temporal, checked against the code of today, run again offline."""
