"""A real Kubernetes for tests, on this machine, from package registries alone. Not shipped.

build ──► binaries in the cache ──► ApiWorld (etcd + kube-apiserver + controllers, no root)
                                └─► node     (the same plus scheduler, containerd and kubelet; root)

Only the standard library and programs of the system are used, so that it runs before any set-up.
"""
