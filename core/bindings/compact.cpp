#include "bindings.hpp"

#include "rows/factored.hpp"

namespace bridle {
namespace {

template <class T> std::span<const T> span_of(const Vector<T> &vector) {
  return {vector.data(), vector.shape(0)};
}
template <class T> std::span<T> span_of(const MutableVector<T> &vector) {
  return {vector.data(), vector.shape(0)};
}

template <class Column>
nb::object gaps(Vector<int64_t> offsets, Vector<Column> columns, int64_t most) {
  std::optional<Gaps> found = [&] {
    const nb::gil_scoped_release release;
    return gaps_of(span_of(offsets), span_of(columns), most);
  }();
  if (!found)
    return nb::none();
  return nb::make_tuple(to_numpy(std::move(found->offsets)), to_numpy(std::move(found->gaps)));
}

void columns(Vector<int64_t> gap_offsets, Vector<uint16_t> gaps, Vector<int64_t> offsets,
             int64_t n_features, MutableVector<int32_t> out) {
  const nb::gil_scoped_release release;
  columns_of_gaps(span_of(gap_offsets), span_of(gaps), span_of(offsets), n_features, span_of(out));
}

template <class Value> nb::object codes(Vector<Value> values, Vector<Value> known) {
  std::vector<uint16_t> found(values.shape(0));
  std::vector<Value> all;
  const bool enough = [&] {
    const nb::gil_scoped_release release;
    Codes<Value> codes(span_of(known));
    const bool done = codes.encode(span_of(values), found);
    all = std::move(codes.known());
    return done;
  }();
  if (!enough)
    return nb::none();
  return nb::make_tuple(to_numpy(std::move(found)), to_numpy(std::move(all)));
}

template <class Value>
void values(Vector<uint16_t> codes, Vector<Value> known, MutableVector<Value> out) {
  expect_size(out, static_cast<int64_t>(codes.shape(0)), "out");
  const nb::gil_scoped_release release;
  values_of_codes(span_of(codes), span_of(known), span_of(out));
}

template <class Value> void bind_values(nb::module_ &m) {
  m.def("codes_of", &codes<Value>, nb::arg("values").noconvert(), nb::arg("known").noconvert(),
        "Numbers of 16 bits for values, and all that are known now; None if they are too many.");
  m.def("values_of_codes", &values<Value>, nb::arg("codes").noconvert(),
        nb::arg("known").noconvert(), nb::arg("out").noconvert(), "What the numbers stand for.");
}

template <class Column> void bind_gaps(nb::module_ &m) {
  m.def("gaps_of", &gaps<Column>, nb::arg("offsets").noconvert(), nb::arg("columns").noconvert(),
        nb::arg("most"),
        "Gaps of 16 bits between the columns of each row, and their offsets; None if more.");
}

template <class Column>
nb::object factors(Vector<int64_t> offsets, Vector<Column> columns, Vector<float> values,
                   Vector<float> of_columns, Vector<double> few) {
  Factored found = [&] {
    const nb::gil_scoped_release release;
    return factored(span_of(offsets), span_of(columns), span_of(values),
                    {span_of(of_columns), span_of(few)});
  }();
  return nb::make_tuple(to_numpy(std::move(found.scale)), to_numpy(std::move(found.codes)),
                        to_numpy(std::move(found.rest_offsets)), to_numpy(std::move(found.rest)));
}

template <class Column>
void products(Vector<int64_t> offsets, Vector<uint16_t> codes, Vector<Column> columns,
              Vector<double> scale, Vector<int64_t> rest_offsets, Vector<float> rest,
              Vector<float> of_columns, Vector<double> few, MutableVector<float> out) {
  const nb::gil_scoped_release release;
  values_of_factors(span_of(offsets), span_of(codes), span_of(columns), span_of(scale),
                    span_of(rest_offsets), span_of(rest), {span_of(of_columns), span_of(few)},
                    span_of(out));
}

template <class Column> void bind_factors(nb::module_ &m) {
  m.def("factored", &factors<Column>, nb::arg("offsets").noconvert(),
        nb::arg("columns").noconvert(), nb::arg("values").noconvert(),
        nb::arg("of_columns").noconvert(), nb::arg("few").noconvert(),
        "The scale of each row, a code for each value, and what is in no code, row by row.");
  m.def("values_of_factors", &products<Column>, nb::arg("offsets").noconvert(),
        nb::arg("codes").noconvert(), nb::arg("columns").noconvert(), nb::arg("scale").noconvert(),
        nb::arg("rest_offsets").noconvert(), nb::arg("rest").noconvert(),
        nb::arg("of_columns").noconvert(), nb::arg("few").noconvert(), nb::arg("out").noconvert(),
        "The values again.");
}

} // namespace

void bind_compact(nb::module_ &m) {
  bind_gaps<int32_t>(m);
  bind_gaps<int64_t>(m);
  m.def("columns_of_gaps", &columns, nb::arg("gap_offsets").noconvert(),
        nb::arg("gaps").noconvert(), nb::arg("offsets").noconvert(), nb::arg("n_features"),
        nb::arg("out").noconvert(), "The columns of rows: as many as they have values.");
  bind_factors<int32_t>(m);
  bind_factors<int64_t>(m);
  bind_values<float>(m);
  bind_values<double>(m);
}

} // namespace bridle
