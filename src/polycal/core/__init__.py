"""The data that flows: readings, tables, polytopes, densities, neighbours."""
