"""Do the tests find bugs? Those in planted.toml are planted, and the tests of their areas run."""
