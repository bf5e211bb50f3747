"""A thin asynchronous Kubernetes client: what the rest of the house knows of the cluster.

wire ──► status ──► transport ──► client ──► informer

Reads decode into Structs of only the fields we use; writes are plain dicts.
"""
