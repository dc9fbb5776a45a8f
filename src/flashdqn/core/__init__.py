"""What every other package may use: records, contracts, errors. It imports no other package of flashdqn."""
