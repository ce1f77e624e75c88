"""The default attribution: costs of all query classes fitted together."""
