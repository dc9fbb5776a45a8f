"""The browser player: a small server for this machine only, and the page that it serves."""
