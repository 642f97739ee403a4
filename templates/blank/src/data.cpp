#include "data.h"

namespace {

/// TODO: the fields of your rows. Those that the model reads are numbers here; there are strings
/// too, with feature columns for words.
const std::vector<muster::CsvField>& fields() {
  static const std::vector<muster::CsvField> all{muster::CsvField::float32("x"),
                                                 muster::CsvField::float32("y"),
                                                 muster::CsvField::int64("label")};
  return all;
}

/// Turns rows into a batch.
class Parser {
 public:
  muster::Batch operator()(std::vector<muster::Record> rows) const {
    std::vector<std::string_view> lines;
    for (const auto& row : rows) lines.push_back(row.bytes);
    const auto columns = decoder_->decode(lines);
    const auto count = static_cast<std::int64_t>(lines.size());
    const auto numbers = [&](const char* name) {
      const auto values = columns.floats(name);
      return muster::tensor_of(std::vector<float>(values.begin(), values.end()), {count});
    };
    const auto labels = columns.int64s("label");
    return muster::make_batch(
        {{"x", numbers("x")}, {"y", numbers("y")}},
        muster::tensor_of(std::vector<std::int64_t>(labels.begin(), labels.end()), {count, 1}));
  }

 private:
  std::shared_ptr<const muster::CsvDecoder> decoder_ =
      std::make_shared<const muster::CsvDecoder>(fields());
};

muster::Dataset<muster::Record> rows_of(const std::vector<muster::Path>& files) {
  return muster::from_files(files, [](const muster::Path& file) { return muster::open_csv(file); });
}

}  // namespace

muster::InputFn input(const std::vector<muster::Path>& files, std::size_t batch_size) {
  return [=](const muster::InputContext& in) {
    auto rows = rows_of(files);
    // Training shuffles, reads its share of the rows, and begins again at their end.
    if (in.mode() == muster::Mode::kTrain) {
      rows = rows.shuffle(10 * batch_size, in.seed()).shard(in).repeat();
    }
    return rows.batch(batch_size).map(Parser()).prefetch(2);
  };
}

muster::ServingInput serving_input() {
  const muster::FixedLen number{muster::FeatureKind::kFloat, {}};
  return muster::json_serving_input({{"x", number}, {"y", number}});
}

std::int64_t count_rows(const std::vector<muster::Path>& files) {
  std::int64_t count = 0;
  for (auto rows = rows_of(files).iterate(); rows->next();) ++count;
  return count;
}
