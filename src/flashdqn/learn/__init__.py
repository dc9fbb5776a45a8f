"""Learning: one `td_loss` composed from a head and a bootstrap, and the learner that applies it."""
