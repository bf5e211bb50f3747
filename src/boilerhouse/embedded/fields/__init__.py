"""Pure pieces of Kubernetes objects: selectors, patches, paths, quantities."""
