"""Tools that know nothing of polycal: blocks, files, checks, optional libraries."""
