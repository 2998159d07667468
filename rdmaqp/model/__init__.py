"""What the field's own words mean, as data: states, attributes, the kernel's table, requests. Nothing compiled."""
