"""What API objects say to the kubelet, and how it tells of them. Pure but for references."""
