"""The training of a net, iteration by iteration."""
