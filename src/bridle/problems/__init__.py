"""An objective on rows: what can be certified."""
