// CSR rows as centres and as rows of inner products. TARGET is the type of the products.

// The chosen rows as dense ones, in a table that holds zeros.
extern "C" __global__ void spread(const Int *offsets, const COLUMN *columns, const VALUE *values,
                                  const Int *chosen, Int m, Int n_features, TARGET *out) {
  for (Int c = group(); c < m; c += groups())
    for (Int k = offsets[chosen[c]] + lane(); k < offsets[chosen[c] + 1]; k += LANES)
      out[c * n_features + columns[k]] = values[k];
}

// Inner products of m centres with n rows: centres[j][c] is feature j of centre c.
extern "C" __global__ void csr_products(const Int *offsets, const COLUMN *columns,
                                        const VALUE *values, const Int *rows, Int n,
                                        const TARGET *centres, Int m, TARGET *out) {
  for (Int p = group(); p < n; p += groups())
    for (Int c = lane(); c < m; c += LANES) {
      TARGET sum = 0;
      for (Int k = offsets[rows[p]]; k < offsets[rows[p] + 1]; ++k)
        sum += TARGET(values[k]) * centres[columns[k] * m + c];
      out[c * n + p] = sum;
    }
}
