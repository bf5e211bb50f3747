"""One suite, two worlds: what we rely on in the Kubernetes API, of the real one and of ours.

Where they differ, the embedded one is wrong until proven otherwise.
"""
