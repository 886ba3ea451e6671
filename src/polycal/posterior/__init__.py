"""The posterior pi: votes of similar rows, pooled with the probabilities of the parent."""
