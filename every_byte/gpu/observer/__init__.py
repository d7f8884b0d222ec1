"""Who looks, while a program runs, whom each allocation serves; it writes what ledger/attribution reads."""
