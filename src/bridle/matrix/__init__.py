"""What a matrix is here: CSR or dense, its dtypes, and the one check at the door."""
