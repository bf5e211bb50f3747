"""What the API server asks of Pods: exec, attach, logs, proxy."""
