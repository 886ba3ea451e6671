"""Is there any data there? Densities, log f, the floor, and the verdict."""
