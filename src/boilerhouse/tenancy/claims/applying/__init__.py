"""The steps of a plan that have effects outside the claim."""
