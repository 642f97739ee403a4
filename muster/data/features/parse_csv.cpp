#include "muster/data/features/parse_csv.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <utility>

#include "muster/base/error.h"
#include "muster/data/features/collate.h"

namespace muster {
namespace {

class CsvParser {
 public:
  explicit CsvParser(ParseCsvOptions options)
      : options_(std::move(options)), decoder_(options_.fields, options_.csv) {
    const auto& fields = options_.fields;
    const auto field = std::ranges::find(fields, options_.label.field, &CsvField::name);
    if (field == fields.end() || field->type != CsvType::kString) {
      throw InvalidArgument("parse_csv: the label `{}` is no field of strings",
                            options_.label.field);
    }
    if (options_.label.vocabulary.empty()) {
      throw InvalidArgument("parse_csv: the label `{}` has no vocabulary", options_.label.field);
    }
  }

  static Batch parse(std::shared_ptr<const CsvParser> parser, std::vector<Record> records) {
    const CsvParser& self = *parser;
    std::vector<std::string_view> rows;
    rows.reserve(records.size());
    for (const Record& record : records) rows.push_back(record.bytes);
    const auto name = [&](std::size_t row) { return self.name_of_row(row, rows[row]); };
    CsvColumns columns = self.decoder_.decode(rows, name);
    at::Tensor labels = self.label_ids(columns.strings(self.options_.label.field), name);
    // Owner of the memory that the strings point into: the rows, and the decoder with its defaults.
    using Owner = std::pair<std::vector<Record>, std::shared_ptr<const CsvParser>>;
    auto owner = std::make_shared<const Owner>(std::move(records), std::move(parser));
    Features features = to_features(std::move(columns), std::move(owner));
    features.remove(self.options_.label.field);
    for (const auto& set : self.options_.columns) features = set->prepare(std::move(features));
    return make_batch(std::move(features), std::move(labels));
  }

 private:
  std::string name_of_row(std::size_t number, std::string_view row) const {
    return options_.name ? options_.name(row) : fmt::format("row {} of the batch", number);
  }

  at::Tensor label_ids(std::span<const std::string_view> words, const CsvRowName& name) const {
    std::vector<std::int64_t> ids;
    ids.reserve(words.size());
    for (const std::string_view word : words) ids.push_back(label_id(word, ids.size(), name));
    const auto rows = static_cast<std::int64_t>(ids.size());
    return tensor_of(std::move(ids), {rows, 1});
  }

  std::int64_t label_id(std::string_view word, std::size_t row, const CsvRowName& name) const {
    const CsvLabel& label = options_.label;
    if (word.empty() && label.may_be_blank) return 0;
    if (word.ends_with(label.ending)) word.remove_suffix(label.ending.size());
    const auto found = std::ranges::find(label.vocabulary, word);
    if (found == label.vocabulary.end()) {
      throw InvalidArgument("{}: {} is '{}', not {}", name(row), label.field, word,
                            fmt::join(label.vocabulary, " or "));
    }
    return found - label.vocabulary.begin();
  }

  ParseCsvOptions options_;
  CsvDecoder decoder_;
};

}  // namespace

std::function<Batch(std::vector<Record>)> parse_csv(ParseCsvOptions options) {
  if (options.label.may_be_blank) {
    for (CsvField& field : options.fields) {
      if (field.name == options.label.field) field.default_value = std::string();
    }
  }
  return [parser = std::make_shared<const CsvParser>(std::move(options))](
             std::vector<Record> records) { return CsvParser::parse(parser, std::move(records)); };
}

std::function<std::string(std::string_view row)> find_row_in(
    std::vector<Path> files, std::function<std::unique_ptr<RecordSource>(const Path& file)> open) {
  return [files = std::move(files), open = std::move(open)](std::string_view row) -> std::string {
    for (const Path& file : files) {
      const auto source = open(file);
      for (Record record; source->next(record);) {
        if (record.bytes == row) return source->where(source->position() - 1);
      }
    }
    return "a row that its file no longer has";
  };
}

}  // namespace muster
