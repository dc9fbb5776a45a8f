"""Pictures and pages: curves, games, reports."""
