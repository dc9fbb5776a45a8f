"""The rules that turn evidence into findings: one file for each kind of problem."""
