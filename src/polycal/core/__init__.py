"""Data that the other packages exchange: readings, tables, polytopes, densities, neighbours."""
