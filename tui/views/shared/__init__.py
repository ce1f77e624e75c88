"""What the tabs of all views are made of."""
