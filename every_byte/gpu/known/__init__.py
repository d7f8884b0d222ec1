"""The values on a simulated GPU that need no computing there: what the host knows of a tensor, from how it was made."""
