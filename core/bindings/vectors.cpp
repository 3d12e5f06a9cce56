// What is asked of a number for each row, before there is a problem: labels and offsets.
#include "bindings.hpp"

#include <array>
#include <bit>
#include <cstring>

namespace bridle {
namespace {

// work(i) for all i, by threads.
template <class Work> void for_each_row(int64_t n, int n_threads, const Work &work) {
  const nb::gil_scoped_release release;
  for_ranges(n, vector_grain, n_threads, [&](Range range) {
    for (int64_t i = range.begin; i < range.end; ++i)
      work(i);
  });
}

// The two values that there are, the smaller one first, and how often there is the larger one; none
// where there are not two.
template <class T>
std::optional<std::tuple<T, T, int64_t>> two_values(Vector<T> values, int n_threads) {
  const auto n = static_cast<int64_t>(values.shape(0));
  const T *v = values.data();
  struct Found {
    T other;       // the first that is not v[0], or that
    int64_t times; // of that
    bool more;     // there is a third one, or what is equal to nothing
  };
  std::vector<Found> parts((n + vector_grain - 1) / vector_grain);
  const nb::gil_scoped_release release;
  for_ranges(n, vector_grain, n_threads, [&](Range range) {
    Found found{v[0], 0, false};
    int64_t i = range.begin;
    while (i < range.end && v[i] == v[0])
      ++i;
    if (i < range.end)
      found.other = v[i];
    for (; i < range.end; ++i) {
      found.times += v[i] == found.other;
      found.more |= v[i] != found.other && v[i] != v[0];
    }
    parts[range.begin / vector_grain] = found;
  });
  Found all{n > 0 ? v[0] : T{}, 0, false};
  for (const Found &part : parts) {
    if (part.times > 0 && all.times == 0)
      all.other = part.other;
    all.more |= part.more || (part.times > 0 && part.other != all.other);
    all.times += part.times;
  }
  if (all.more || all.times == 0)
    return std::nullopt;
  if (all.other > v[0])
    return std::tuple{v[0], all.other, all.times};
  return std::tuple{all.other, v[0], n - all.times};
}

template <class T>
void equal_to(Vector<T> values, T value, MutableVector<int64_t> out, int n_threads) {
  const auto n = static_cast<int64_t>(values.shape(0));
  expect_size(out, n, "out");
  const T *v = values.data();
  int64_t *o = out.data();
  for_each_row(n, n_threads, [=](int64_t i) { o[i] = v[i] == value; });
}

void with_signs(const PyPerRow &sizes, Vector<int64_t> codes, int64_t positive,
                MutableVector<double> out, int n_threads) {
  const auto n = static_cast<int64_t>(codes.shape(0));
  const PerRow size = per_row(sizes, n, "sizes");
  expect_size(out, n, "out");
  const int64_t *c = codes.data();
  double *o = out.data();
  for_each_row(n, n_threads, [=](int64_t i) { o[i] = c[i] == positive ? size[i] : -size[i]; });
}

void product(Vector<double> a, const PyPerRow &b, MutableVector<double> out, int n_threads) {
  const auto n = static_cast<int64_t>(a.shape(0));
  const PerRow times = per_row(b, n, "b");
  expect_size(out, n, "out");
  const double *v = a.data();
  double *o = out.data();
  for_each_row(n, n_threads, [=](int64_t i) { o[i] = v[i] * times[i]; });
}

void widen(Vector<int32_t> offsets, MutableVector<int64_t> out, int n_threads) {
  const auto n = static_cast<int64_t>(offsets.shape(0));
  expect_size(out, n, "out");
  const int32_t *v = offsets.data();
  int64_t *o = out.data();
  for_each_row(n, n_threads, [=](int64_t i) { o[i] = v[i]; });
}

template <class T> int64_t first_fall(Vector<T> offsets) {
  const T *begin = offsets.data(), *end = begin + offsets.shape(0);
  const nb::gil_scoped_release release;
  const T *sorted_to = std::is_sorted_until(begin, end);
  return sorted_to == end ? -1 : sorted_to - begin - 1;
}

// Bytes in the order of small machines, on all of them.
template <class T> void write(std::string &text, T value) {
  std::array<char, sizeof(T)> bytes;
  std::memcpy(bytes.data(), &value, sizeof(T));
  if constexpr (std::endian::native == std::endian::big)
    std::reverse(bytes.begin(), bytes.end());
  text.append(bytes.data(), bytes.size());
}

// Of each chosen row the columns and the values of what is not 0 in float32, and what there is to
// say of it; none if the columns of one do not increase.
std::optional<nb::bytes> text_of_rows(const PyRows &rows, Vector<int64_t> chosen,
                                      const std::vector<nb::bytes> &labels) {
  expect_size(chosen, static_cast<int64_t>(labels.size()), "chosen");
  std::string text, values;
  bool in_order = true;
  std::visit(
      [&](const auto &r) {
        for (size_t k = 0; k < labels.size(); ++k) {
          expect_between(chosen.data()[k], 0, r.n_rows - 1, "a chosen row");
          int64_t before = -1;
          values.clear();
          r.for_each(chosen.data()[k], [&](int64_t column, auto value) {
            in_order &= column > before;
            before = column;
            if (const auto single = static_cast<float>(value); single != 0) {
              write(text, column);
              write(values, single);
            }
          });
          text += values;
          text.append(labels[k].c_str(), labels[k].size());
        }
      },
      rows.unchecked());
  return in_order ? std::optional(nb::bytes(text.data(), text.size())) : std::nullopt;
}

template <class T> void bind_values(nb::module_ &m) {
  m.def("two_values", &two_values<T>, nb::arg("values").noconvert(), nb::arg("n_threads"),
        "The smaller and the larger of two values, and how often there is the larger one; None "
        "where there are not two.");
  m.def("equal_to", &equal_to<T>, nb::arg("values").noconvert(), nb::arg("value"), nb::arg("out"),
        nb::arg("n_threads"), "out[i]: 1 where the value is this one, else 0.");
}

} // namespace

void bind_vectors(nb::module_ &m) {
  bind_values<double>(m);
  bind_values<float>(m);
  bind_values<int64_t>(m);
  bind_values<int32_t>(m);
  m.def("with_signs", &with_signs, nb::arg("sizes"), nb::arg("codes"), nb::arg("positive"),
        nb::arg("out"), nb::arg("n_threads"),
        "out[i]: sizes[i] where the code is this one, else -sizes[i].");
  m.def("product", &product, nb::arg("a"), nb::arg("b"), nb::arg("out"), nb::arg("n_threads"),
        "out[i] = a[i] b[i]");
  m.def("widen", &widen, nb::arg("offsets").noconvert(), nb::arg("out"), nb::arg("n_threads"),
        "The same numbers with 64 bits.");
  m.def("first_fall", &first_fall<int32_t>, nb::arg("offsets").noconvert(),
        "The first k for which offsets[k + 1] < offsets[k]; -1 if there is none.");
  m.def("first_fall", &first_fall<int64_t>, nb::arg("offsets").noconvert());
  m.def("text_of_rows", &text_of_rows, nb::arg("rows"), nb::arg("chosen"), nb::arg("labels"),
        "What a fingerprint is made of; None if the columns of a row are not in order.");
}

} // namespace bridle
