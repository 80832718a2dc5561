"""Which layer reads what: pure functions over frozen values."""
