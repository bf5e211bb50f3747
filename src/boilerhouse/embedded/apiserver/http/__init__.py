"""The listeners: ASGI adapter, Unix socket, TLS port with its certificates, kubeconfig."""
