"""Networks: which traffic instances may have, as NetworkPolicies of a cluster."""
