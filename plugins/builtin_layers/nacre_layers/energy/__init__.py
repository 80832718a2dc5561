"""Energy models: restricted Boltzmann machines, and contrastive divergence, which trains them."""
