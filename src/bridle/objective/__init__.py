"""The formula: losses, Mercer kernels, biases, certificates, points (w, b, alpha), metrics."""
