"""The tool that builds and runs a real Kubernetes, as far as it goes without one."""
