// Coordinate descent in the primal, on columns.
#include "bindings.hpp"

#include "linear/coordinate.hpp"

namespace bridle {
namespace {

// What it keeps alive: the arrays that the descent reads.
class PyColumnDescent {
public:
  PyColumnDescent(const PyRows &rows, const PyLoss &loss, Vector<double> signed_cost,
                  std::optional<Vector<double>> targets, Vector<double> w,
                  std::pair<double, double> penalty, std::pair<double, double> constant_penalty,
                  double constant)
      : signed_cost_(signed_cost), targets_(targets) {
    expect_size(signed_cost, n_rows(rows), "signed_cost");
    expect_size(w, n_weights(rows), "w");
    if (targets)
      expect_size(*targets, n_rows(rows), "targets");
    expect_finite(w, "w");
    const ColumnSides sides{signed_cost_.data(),
                            targets_ ? targets_->data() : nullptr,
                            constant,
                            {penalty.first, penalty.second},
                            {constant_penalty.first, constant_penalty.second}};
    const AnyLoss made = loss_from(loss);
    const nb::gil_scoped_release release;
    steps_ = std::visit(
        [&](const auto &r) -> std::unique_ptr<ColumnDescent> {
          auto view = r;
          view.bias = constant;
          using Value = typename std::decay_t<decltype(r)>::Value;
          return std::make_unique<ColumnDescentOn<Value>>(view, made, sides, w.data());
        },
        rows.view());
    n_rows_ = bridle::n_rows(rows);
    n_weights_ = n_weights(rows);
  }

  ColumnReport epoch(Rng &rng) {
    const nb::gil_scoped_release release;
    return steps_->epoch(rng);
  }
  void weights(MutableVector<double> out) const {
    expect_size(out, n_weights_, "out");
    const nb::gil_scoped_release release;
    steps_->weights(out.data());
  }
  void alpha(MutableVector<double> out) const {
    expect_size(out, n_rows_, "out");
    const nb::gil_scoped_release release;
    steps_->alpha(out.data());
  }

private:
  Vector<double> signed_cost_;
  std::optional<Vector<double>> targets_;
  std::unique_ptr<ColumnDescent> steps_;
  int64_t n_rows_, n_weights_;
};

} // namespace

void bind_coordinate(nb::module_ &m) {
  nb::class_<ColumnReport>(m, "ColumnReport")
      .def_ro("primal", &ColumnReport::primal)
      .def_ro("dual", &ColumnReport::dual)
      .def_ro("violation", &ColumnReport::violation);
  nb::class_<PyColumnDescent>(m, "ColumnDescent", "Descent in the primal on a copy of the columns.")
      .def("epoch", &PyColumnDescent::epoch, nb::arg("rng"),
           "Solve on a working set, and look at all columns.")
      .def("weights", &PyColumnDescent::weights, nb::arg("out"))
      .def("alpha", &PyColumnDescent::alpha, nb::arg("out"),
           "C_i slope(p_i), the dual variables before they are scaled.");
  m.def(
      "column_descent",
      [](const PyRows &rows, const PyLoss &loss, Vector<double> signed_cost,
         std::optional<Vector<double>> targets, Vector<double> w, std::pair<double, double> penalty,
         std::pair<double, double> constant_penalty, double constant) {
        return std::make_unique<PyColumnDescent>(rows, loss, signed_cost, targets, w, penalty,
                                                 constant_penalty, constant);
      },
      nb::arg("rows"), nb::arg("loss"), nb::arg("signed_cost"), nb::arg("targets").none(),
      nb::arg("w"), nb::arg("penalty"), nb::arg("constant_penalty"), nb::arg("constant"),
      "penalty: of |w_j| and of w_j^2 / 2.");
}

} // namespace bridle
