"""What a formula is: named terms in letters, evaluated in exact integers; no torch."""
