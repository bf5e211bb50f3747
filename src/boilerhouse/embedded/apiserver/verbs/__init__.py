"""What can be done with objects: write, list, watch, delete, scale; patches and selectors."""
