"""Remedies tried on a program that is not edited: what can be changed from outside, and a process for each run."""
