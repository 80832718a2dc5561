"""Which of several ways is the fastest, and the plans that remember it."""
