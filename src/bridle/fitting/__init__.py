"""From rows and labels to a model and its certificate."""
