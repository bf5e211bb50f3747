"""The node of the embedded world: runs Pods as sandboxed processes of this machine."""
