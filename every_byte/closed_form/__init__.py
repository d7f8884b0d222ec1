"""The closed form of a run, found from runs at several sizes: exact rational interpolation, row by row of a ledger."""
