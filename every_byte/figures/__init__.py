"""What stands still: a trace or a ledger as a picture."""
