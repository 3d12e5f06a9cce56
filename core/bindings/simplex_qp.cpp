#include "bindings.hpp"

#include "linear/simplex_qp.hpp"

namespace bridle {
namespace {

using Matrix = nb::ndarray<const double, nb::ndim<2>, nb::device::cpu>;

SimplexQpResult solve_simplex_qp(const Matrix &gram, Vector<double> r, Vector<int64_t> group,
                                 Vector<double> caps, MutableVector<double> beta,
                                 double tolerance) {
  const auto n = static_cast<int64_t>(r.shape(0)), n_groups = static_cast<int64_t>(caps.shape(0));
  expect_size(gram, n, "gram");
  if (static_cast<int64_t>(gram.shape(1)) != n || (n > 0 && gram.stride(1) != 1))
    throw nb::value_error("gram must be square with contiguous rows");
  expect_size(group, n, "group");
  expect_size(beta, n, "beta");
  for (int64_t c = 0; c < n; ++c)
    if (group.data()[c] < 0 || group.data()[c] >= n_groups)
      throw nb::value_error("group has an entry outside 0..len(caps)-1");
  const nb::gil_scoped_release release;
  return SimplexQp(gram.data(), gram.stride(0), r.data(), group.data(), caps.data(), beta.data(), n,
                   n_groups)
      .solve(tolerance);
}

} // namespace

void bind_simplex_qp(nb::module_ &m) {
  nb::class_<SimplexQpResult>(m, "SimplexQpResult")
      .def_ro("value", &SimplexQpResult::value)
      .def_ro("gap", &SimplexQpResult::gap)
      .def_ro("steps", &SimplexQpResult::steps);
  m.def("simplex_qp", &solve_simplex_qp, nb::arg("gram"), nb::arg("r"), nb::arg("group"),
        nb::arg("caps"), nb::arg("beta"), nb::arg("tolerance"),
        "Maximise r.beta - 1/2 beta' gram beta over beta >= 0 whose sum over each group is at most "
        "its cap, from the given beta, which is replaced.");
}

} // namespace bridle
