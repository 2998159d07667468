"""Questions to this machine. Nothing here needs a device, or the compiled half."""
