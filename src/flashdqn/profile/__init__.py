"""`flashdqn profile`: where the time of a flashdqn training goes, and what would make it faster."""
