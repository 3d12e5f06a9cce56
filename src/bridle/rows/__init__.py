"""Where rows are and what can be computed with them: in memory, on disk, on a cluster."""
