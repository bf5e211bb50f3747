"""The client half of the snapshot helper, and the controller that keeps it running."""
