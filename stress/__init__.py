"""Long runs that try to break polycal; README.md has what was tried and what failed."""
