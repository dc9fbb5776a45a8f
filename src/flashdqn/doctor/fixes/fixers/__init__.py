"""One file for each kind of patch; a function marked `@fixes(...)` is asked about each finding of that name."""
