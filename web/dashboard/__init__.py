"""The dashboard: pages for people, rendered here, with little script and none from elsewhere."""
