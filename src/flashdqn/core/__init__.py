"""What every other package may use: records, contracts, errors. It imports nothing of ours."""
