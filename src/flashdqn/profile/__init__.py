"""`flashdqn profile`: where the time of our own trainings goes, and what would make them faster."""
