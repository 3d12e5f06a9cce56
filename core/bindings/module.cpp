#include "bindings.hpp"

NB_MODULE(_core, m) {
  m.doc() = "The compiled core of bridle: kernels without policy.";
  m.attr("version") = BRIDLE_VERSION;
  bridle::bind_rows(m);
  bridle::bind_dcd(m);
  bridle::bind_kernels(m);
  bridle::bind_perceptrons(m);
  bridle::bind_sgd(m);
  bridle::bind_sgd_qn(m);
  bridle::bind_svmlight(m);
  bridle::bind_simplex_qp(m);
  bridle::bind_newton(m);
  bridle::bind_cutting_plane(m);
  bridle::bind_chain(m);
  bridle::bind_cky(m);
  bridle::bind_multilabel(m);
  bridle::bind_features(m);
  bridle::bind_ranking(m);
}
