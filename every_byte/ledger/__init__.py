"""What happened to a GPU's memory (trace), and whom every byte serves (ledger)."""
