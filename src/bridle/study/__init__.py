"""Looking: comparisons, explanations, reports, pictures, progress."""
