"""The rules by which evidence becomes a finding: one file for each kind of trouble."""
