"""The audit trail: entries, receipts, a Merkle log with signed heads, and its verification."""
