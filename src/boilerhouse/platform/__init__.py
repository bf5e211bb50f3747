"""I/O without a domain: Kubernetes client, controller loop, servers, files, archives."""
