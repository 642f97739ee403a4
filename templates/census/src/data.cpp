#include "data.h"

#include "model.h"

namespace {

using muster::CsvField;

muster::Dataset<muster::Record> people_of(const std::vector<muster::Path>& files) {
  return muster::from_files(files, [](const muster::Path& file) {
    return muster::open_csv(file, {.skip_empty_lines = true});
  });
}

/// The features, transformed by the columns. Nothing here depends on hyperparameters.
using ColumnSets = std::vector<std::shared_ptr<const muster::ColumnSet>>;
ColumnSets column_sets() {
  const Columns columns = make_columns({});
  return {std::make_shared<const muster::ColumnSet>(columns.wide, muster::ColumnUse::kLinear),
          std::make_shared<const muster::ColumnSet>(columns.deep, muster::ColumnUse::kInputLayer)};
}

/// Turns rows into a batch.
class Parser {
 public:
  Parser(ColumnSets columns, muster::Mode mode)
      : columns_(std::move(columns)),
        mode_(mode),
        decoder_(std::make_shared<const muster::CsvDecoder>(
            fields(), muster::CsvOptions{.strip_blanks = true})) {}

  muster::Batch operator()(std::vector<muster::Record> people) const {
    std::vector<std::string_view> rows;
    for (const auto& person : people) rows.push_back(person.bytes);
    auto parsed = decoder_->decode(rows);
    at::Tensor labels = label_ids(parsed.strings("income_bracket"));
    // The words are views into the rows, which live as long as the batch.
    using Owner = std::pair<std::vector<muster::Record>, std::shared_ptr<const muster::CsvDecoder>>;
    auto features = muster::to_features(std::move(parsed),
                                        std::make_shared<const Owner>(std::move(people), decoder_));
    features.remove("income_bracket");
    for (const auto& set : columns_) features = set->prepare(std::move(features));
    return muster::make_batch(std::move(features), std::move(labels));
  }

 private:
  at::Tensor label_ids(std::span<const std::string_view> words) const {
    std::vector<std::int64_t> ids;
    for (std::string_view word : words) {
      // Labels of the original test file end in a full stop.
      if (word.ends_with('.')) word.remove_suffix(1);
      const bool known = word == "<=50K" || word == ">50K";
      if (!known && mode_ != muster::Mode::kPredict) {
        throw muster::InvalidArgument("income_bracket is '{}', not <=50K or >50K", word);
      }
      ids.push_back(word == ">50K" ? 1 : 0);
    }
    const auto rows = static_cast<std::int64_t>(ids.size());
    return muster::tensor_of(std::move(ids), {rows, 1});
  }

  ColumnSets columns_;
  muster::Mode mode_;
  std::shared_ptr<const muster::CsvDecoder> decoder_;
};

}  // namespace

std::vector<muster::CsvField> fields() {
  return {CsvField::int32("age", 0),
          CsvField::string("workclass", ""),
          CsvField::ignored("fnlwgt"),
          CsvField::string("education", ""),
          CsvField::int32("education_num", 0),
          CsvField::string("marital_status", ""),
          CsvField::string("occupation", ""),
          CsvField::string("relationship", ""),
          CsvField::string("race", ""),
          CsvField::string("gender", ""),
          CsvField::int32("capital_gain", 0),
          CsvField::int32("capital_loss", 0),
          CsvField::int32("hours_per_week", 0),
          CsvField::string("native_country", ""),
          CsvField::string("income_bracket", "")};
}

muster::InputFn input(const std::vector<muster::Path>& files, std::size_t batch_size) {
  return [=, columns = column_sets()](const muster::InputContext& in) {
    auto people = people_of(files);
    if (in.mode() == muster::Mode::kTrain) {
      people = people.shuffle(10 * batch_size, in.seed()).shard(in).repeat();
    }
    return people.batch(batch_size).map(Parser(columns, in.mode())).prefetch(4);
  };
}

muster::ServingInput serving_input() {
  const Columns columns = make_columns({});
  muster::FeatureColumnList all = columns.wide;
  all.insert(all.end(), columns.deep.begin(), columns.deep.end());
  return muster::json_serving_input(all);
}

std::int64_t count_rows(const std::vector<muster::Path>& files) {
  std::int64_t count = 0;
  for (auto people = people_of(files).iterate(); people->next();) ++count;
  return count;
}
