#include "check.hpp"

#include "text/reader.hpp"
#include "text/writer.hpp"

#include <string>

using namespace bridle;

void a_few_lines_are_read() {
  const std::string text = "# a comment\n"
                           "+1 1:0.5 3:-2 # more\n"
                           "\n"
                           "-1 2:1e-3 10:123456789012345678\n"
                           "0.25\n";
  for (const size_t chunk_bytes : {size_t{1}, size_t{1} << 20}) {
    svmlight::ReadOptions options;
    options.chunk_bytes = chunk_bytes;
    options.n_threads = 2;
    const auto table = svmlight::read<double>(text, "data", options);
    CHECK(table.n_rows == 3 && table.n_nonzero == 4 && table.n_features == 10);
    CHECK(!table.zero_based);
    const double labels[] = {1, -1, 0.25}, values[] = {0.5, -2, 1e-3, 123456789012345678.0};
    const int32_t indices[] = {0, 2, 1, 9}, indptr[] = {0, 2, 4, 4};
    CHECK(std::equal(labels, labels + 3, table.labels.data()));
    CHECK(std::equal(values, values + 4, table.values.data()));
    CHECK(std::equal(indices, indices + 4, table.indices.data()));
    CHECK(std::equal(indptr, indptr + 4, table.indptr32.data()));
  }
}

void errors_say_where() {
  std::string message;
  try {
    (void)svmlight::read<float>("1 1:1\n1 2:x\n", "data", {});
  } catch (const svmlight::ParseError &error) {
    message = error.what();
  }
  CHECK(message == "data:2:5: expected a value (a number), found 'x'");
}

void what_is_written_reads_back() {
  const Sample sample(200, 50, 9);
  const svmlight::RowsToWrite<float, int64_t> rows{sample.offsets.data(),
                                                   sample.columns.data(),
                                                   sample.values.data(),
                                                   sample.y.data(),
                                                   nullptr,
                                                   sample.n_rows,
                                                   1};
  svmlight::ReadOptions options;
  options.n_features = sample.n_features;
  options.base = svmlight::IndexBase::one;
  const auto table = svmlight::read<float>(svmlight::format(rows), "data", options);
  CHECK(table.n_rows == sample.n_rows && table.n_features == sample.n_features);
  CHECK(std::equal(sample.values.begin(), sample.values.end(), table.values.data()));
  CHECK(std::equal(sample.columns.begin(), sample.columns.end(), table.indices.data()));
  CHECK(std::equal(sample.y.begin(), sample.y.end(), table.labels.data()));
}

int main() {
  a_few_lines_are_read();
  errors_say_where();
  what_is_written_reads_back();
}
