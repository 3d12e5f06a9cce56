#include "check.hpp"

#include "rows/factored.hpp"

#include <functional>
#include <limits>

using namespace bridle;

bool refused(const std::function<void()> &unpack, const char *words) {
  try {
    unpack();
  } catch (const std::invalid_argument &error) {
    return std::string(error.what()).find(words) != std::string::npos;
  }
  return false;
}

void columns_come_back() {
  const std::vector<int64_t> offsets{0, 3, 3, 7};
  const std::vector<int32_t> columns{0,     1,         65535,  /* an empty row */ 65534,
                                     65535, 3 * 65535, 1 << 20};
  const auto packed = gaps_of<int32_t>(offsets, columns, 1000);
  CHECK(packed.has_value());
  std::vector<int32_t> found(columns.size());
  columns_of_gaps(packed->offsets, packed->gaps, offsets, (1 << 20) + 1, found);
  CHECK(found == columns);
  CHECK(!gaps_of<int32_t>(offsets, columns, 7)); // the last one takes more gaps
  CHECK(refused([&] { columns_of_gaps(packed->offsets, packed->gaps, offsets, 1 << 20, found); },
                "outside 0..1048575"));
}

void hostile_gaps_are_refused() {
  const std::vector<int64_t> ends{0, 2};
  std::vector<int32_t> out(2);
  const auto unpack = [&](std::vector<int64_t> gap_ends, std::vector<uint16_t> gaps) {
    return [&ends, &out, gap_ends, gaps] { columns_of_gaps(gap_ends, gaps, ends, 100, out); };
  };
  unpack({0, 2}, {1, 99})();
  CHECK(out == (std::vector<int32_t>{0, 99}));
  CHECK(refused(unpack({0, 2}, {1, 100}), "outside 0..99"));
  CHECK(refused(unpack({0, 2}, {1, no_column}), "other columns than its 2 values"));
  CHECK(refused(unpack({0, 1}, {1}), "other columns than its 2 values"));
  CHECK(refused(unpack({0, 3}, {1, 1, 1}), "other columns than its 2 values"));
  CHECK(refused(unpack({0, 3}, {1, 1}), "do not increase within its 2"));
  CHECK(refused(unpack({-1, 2}, {1, 1}), "do not increase"));
  CHECK(refused(unpack({2, 0}, {1, 1}), "do not increase"));
  CHECK(refused(unpack({}, {}), "do not increase"));
  CHECK(refused(unpack({0, 1, 2}, {1, 1}), "as many rows of gaps"));
  std::vector<uint16_t> far(40000, no_column); // 2^31 and more: no column may wrap around
  far.insert(far.end(), {1, 1});
  CHECK(refused(unpack({0, 40002}, far), "outside 0..99"));
}

void values_come_back() {
  const float least = std::numeric_limits<float>::denorm_min();
  const std::vector<float> values{0.5f, -0.0f, 0.0f, 0.5f, least, -1e30f};
  Codes<float> codes({});
  std::vector<uint16_t> numbers(values.size());
  CHECK(codes.encode(values, numbers) && codes.known().size() == 5);
  std::vector<float> found(values.size());
  values_of_codes<float>(numbers, codes.known(), found);
  CHECK(std::equal(values.begin(), values.end(), found.begin(), [](float a, float b) {
    return std::bit_cast<uint32_t>(a) == std::bit_cast<uint32_t>(b);
  }));
  numbers[3] = 5;
  CHECK(refused([&] { values_of_codes<float>(numbers, codes.known(), found); }, "beyond the 5"));
  std::vector<float> many(65536);
  for (size_t k = 0; k < many.size(); ++k)
    many[k] = static_cast<float>(k);
  Codes<float> full(many);
  std::vector<uint16_t> one(1);
  CHECK(!full.encode(std::vector<float>{0.5f}, one));
}

// Rows that are products but for some values, with numbers that no product gives among them.
struct Products {
  std::vector<int64_t> offsets{0};
  std::vector<int32_t> columns;
  std::vector<float> values, of_columns;
  std::vector<double> few{-1.0, 0.5, 1.0, 1.7};

  Products() {
    Rng rng(1);
    for (int j = 0; j < 50; ++j)
      of_columns.push_back(static_cast<float>(0.1 + rng.uniform()));
    of_columns[7] = 0.0f; // not known
    const float odd[] = {0.0f, -0.0f, 3.0f, 1e38f, -1e-42f};
    for (int i = 0; i < 40; ++i) {
      const double scale = 0.01 + rng.uniform();
      for (int j = i % 3; j < 50; j += 1 + i % 5) {
        columns.push_back(j);
        const double factor = few[static_cast<size_t>(4 * rng.uniform()) % 4];
        values.push_back(rng.uniform() < 0.1 ? odd[j % 5]
                                             : static_cast<float>(scale * of_columns[j] * factor));
      }
      offsets.push_back(static_cast<int64_t>(columns.size()));
    }
  }
  Factors factors() const { return {of_columns, few}; }
};

void products_come_back() {
  const Products rows;
  const Factored packed =
      factored<int32_t>(rows.offsets, rows.columns, rows.values, rows.factors());
  CHECK(4 * packed.rest.size() < rows.values.size());
  std::vector<float> found(rows.values.size());
  const auto unpack = [&](const Factored &from, Factors by) {
    values_of_factors<int32_t>(rows.offsets, from.codes, rows.columns, from.scale,
                               from.rest_offsets, from.rest, by, found);
  };
  unpack(packed, rows.factors());
  CHECK(std::equal(found.begin(), found.end(), rows.values.begin(), [](float a, float b) {
    return std::bit_cast<uint32_t>(a) == std::bit_cast<uint32_t>(b);
  }));
  const auto spoilt = [&](auto change, const char *words) {
    Factored bad = packed;
    change(bad);
    return refused([&] { unpack(bad, rows.factors()); }, words);
  };
  const auto product = static_cast<size_t>(
      std::find_if(packed.codes.begin(), packed.codes.end(), [](auto c) { return c != 0; }) -
      packed.codes.begin());
  CHECK(spoilt([&](auto &bad) { bad.codes[product] = by_itself; }, "fewer values by themselves"));
  CHECK(spoilt([&](auto &bad) { bad.codes[product] = 0xffff; }, "a factor beyond the 4"));
  CHECK(spoilt([](auto &bad) { bad.rest_offsets.back() += 1; }, "do not increase"));
  CHECK(spoilt([](auto &bad) { bad.rest_offsets[1] = -1; }, "do not increase"));
  CHECK(spoilt([](auto &bad) { bad.rest_offsets.pop_back(); }, "as many rows of scale and rest"));
  CHECK(spoilt([](auto &bad) { bad.scale.pop_back(); }, "as many rows of scale and rest"));
  CHECK(spoilt([](auto &bad) { bad.codes.pop_back(); }, "do not increase"));
  CHECK(spoilt(
      [](auto &bad) {
        bad.rest.push_back(1.0f);
        bad.rest_offsets.back() += 1;
      },
      "more values by themselves"));
  CHECK(refused([&] { unpack(packed, {std::span(rows.of_columns).first(3), rows.few}); },
                "a column that has no factor"));
  CHECK(refused([&] { unpack(packed, {{}, {}}); }, "a factor beyond the 0"));
  const std::vector<double> falling{1.0, 0.5};
  CHECK(refused([&] { unpack(packed, {rows.of_columns, falling}); }, "that increase"));
}

void no_factors_will_do() {
  const std::vector<int64_t> offsets{0, 0, 2};
  const std::vector<int32_t> columns{-5, 1 << 30}; // of a file that nobody has checked yet
  const std::vector<float> values{1.0f, 2.0f};
  const Factored packed = factored<int32_t>(offsets, columns, values, {});
  CHECK(packed.rest == values);
  std::vector<float> found(2);
  values_of_factors<int32_t>(offsets, packed.codes, columns, packed.scale, packed.rest_offsets,
                             packed.rest, {}, found);
  CHECK(found == values);
}

int main() {
  columns_come_back();
  hostile_gaps_are_refused();
  values_come_back();
  products_come_back();
  no_factors_will_do();
}
