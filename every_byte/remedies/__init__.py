"""What trains any model in fewer bytes: what is kept and what is computed again, and losses and optimizers in parts."""
