"""A closed form beside the ledger of an instant: they agree, or a test fails and shows where."""


def agrees(formula, letters, ledger):
    """Term by term; every row of the ledger has a term, and one only."""
    comparison = ledger.compare(formula, **letters)
    assert comparison.is_exact, comparison
    assert comparison.accounted_bytes == ledger.requested_bytes
