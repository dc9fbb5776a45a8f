"""The browser player: a small server on this machine alone, and the page that it serves."""
