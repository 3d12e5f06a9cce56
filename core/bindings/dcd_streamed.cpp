#include "dcd.hpp"

#include "linear/dcd/streamed.hpp"

namespace bridle {
namespace {

// `like`: rows of the kind that will come.
std::unique_ptr<StreamedDcd> make_streamed(const PyRows &like, const PyLoss &loss, Vector<double> w,
                                           double bias, double balance, double separable,
                                           double mean_squared_norm, double mean_cost,
                                           int64_t n_rows, bool from_zero, double bias_precision,
                                           int64_t n_blocks, int n_threads) {
  expect_size(w, n_weights(like), "w");
  check_blocks(n_blocks);
  expect_between(n_rows, 0, most_counted, "n_rows");
  const StreamedStart start{w.data(),          bias,      balance, separable,
                            mean_squared_norm, mean_cost, n_rows,  from_zero};
  return make_descent<StreamedDcd, StreamedDcdOn>(like, loss, start, bias_precision, n_blocks,
                                                  n_threads);
}

template <auto visit>
void visit_part(StreamedDcd &self, const PyRows &rows, Vector<double> signed_cost,
                Vector<double> squared_norms, MutableVector<double> alpha,
                MutableVector<uint8_t> resting, Rng &rng, int64_t bucket, const Targets &targets) {
  const RowSides sides = row_sides(rows, signed_cost, squared_norms, targets);
  expect_size(alpha, n_rows(rows), "alpha");
  expect_size(resting, n_rows(rows), "resting");
  bucket = checked_bucket(bucket, n_rows(rows));
  const nb::gil_scoped_release release;
  (self.*visit)(rows.view(), sides, alpha.data(), resting.data(), rng, bucket);
}

} // namespace

void bind_streamed_dcd(nb::module_ &m) {
  nb::class_<StreamedDcd>(m, "StreamedDcd")
      .def("visit", &visit_part<&StreamedDcd::visit>, nb::arg("rows"), nb::arg("signed_cost"),
           nb::arg("squared_norms"), nb::arg("alpha").noconvert(), nb::arg("resting").noconvert(),
           nb::arg("rng"), nb::arg("bucket"), nb::arg("targets") = nb::none())
      .def("visit_again", &visit_part<&StreamedDcd::visit_again>, nb::arg("rows"),
           nb::arg("signed_cost"), nb::arg("squared_norms"), nb::arg("alpha").noconvert(),
           nb::arg("resting").noconvert(), nb::arg("rng"), nb::arg("bucket"),
           nb::arg("targets") = nb::none())
      .def("end_epoch", &StreamedDcd::end_epoch, nb::call_guard<nb::gil_scoped_release>())
      .def_prop_ro("bias", &StreamedDcd::bias)
      .def("weights", &write_weights<StreamedDcd>, nb::arg("out"));
  m.def("streamed_dcd", &make_streamed, nb::arg("like"), nb::arg("loss"), nb::arg("w"),
        nb::arg("bias"), nb::arg("balance"), nb::arg("separable"), nb::arg("mean_squared_norm"),
        nb::arg("mean_cost"), nb::arg("n_rows"), nb::arg("from_zero"), nb::arg("bias_precision"),
        nb::arg("n_blocks"), nb::arg("n_threads"));
}

} // namespace bridle
