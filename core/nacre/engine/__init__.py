"""From a wired graph to memory and one list of steps."""
