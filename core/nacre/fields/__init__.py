"""The fields of layers and components: what a class declares, and what Python code or a net file gives them."""
