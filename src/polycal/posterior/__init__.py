"""What do the labels say? Votes of the neighbours, pooled with the parent's word."""
