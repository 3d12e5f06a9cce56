"""What a fit leaves behind: models that predict, and their files."""
