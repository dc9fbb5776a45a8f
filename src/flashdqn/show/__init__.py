"""Something to look at: curves, pictures of games, the report."""
