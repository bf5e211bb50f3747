"""The Kubernetes API in our own process, for one machine without a cluster."""
