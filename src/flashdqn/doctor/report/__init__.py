"""What the doctor has to say: plain data, and the same on a terminal, on a page and as JSON."""
