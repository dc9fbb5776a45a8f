"""`flashdqn sweep`: try settings, a process per trial, and claim only what fresh seeds confirm."""
