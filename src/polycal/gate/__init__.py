"""The gate: how much training data there is near a row. Densities, log f, floor, verdict."""
