"""The book's own pictures: structures as diagrams, and derivatives, memory over time and its price as curves."""
