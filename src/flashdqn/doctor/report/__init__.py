"""The doctor's report: as plain data, on a terminal, on a page and as JSON."""
