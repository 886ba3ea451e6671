"""PyTorch modules as parents."""
