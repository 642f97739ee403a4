#pragma once

#include <string>
#include <vector>

#include "muster/data/features/feature_column.h"
#include "muster/data/features/features.h"
#include "muster/data/records/csv.h"
#include "muster/data/records/parse_spec.h"

namespace muster {

/// How a server hands examples to an exported model: what TensorFlow calls a serving input
/// receiver. The functions below make them.
struct ServingInput {
  enum class Kind {
    /// The features themselves, as tensors like those of an example.
    kRaw,
    /// A tensor for each raw feature: numbers and words.
    kNamedTensors,
    /// Rows of CSV.
    kCsv,
    /// Serialized tf.Examples.
    kExample,
  };
  struct Alternative;

  Kind kind = Kind::kRaw;
  /// Example of kRaw: two rows or more that are not alike. They tell names, types and shapes, and
  /// trace the model.
  Features example{};
  /// Spec of each feature, for kNamedTensors and kExample.
  FeatureSpecs specs{};
  /// Every field of a row, for kCsv.
  std::vector<CsvField> fields{};
  CsvOptions csv{};
  /// Name of the one input, for kCsv and kExample.
  std::string key{};
  /// More ways in, which give signatures `<name>:<output>`.
  std::vector<Alternative> alternatives{};

  /// Whether the model is fed by one tensor of strings, which classifying and regressing
  /// signatures need.
  bool is_one_string() const { return kind == Kind::kCsv || kind == Kind::kExample; }
};

struct ServingInput::Alternative {
  std::string name{};
  ServingInput input{};
};

/// The features as tensors. Throws InvalidArgument for fewer than two rows.
ServingInput raw_serving_input(Features example);

/// A tensor for each raw feature that the columns read, under its name: float [batch] for numbers
/// (or [batch, shape...]), strings or whole numbers [batch] for others, where "" and -1 stand for
/// a missing value. Of a model with several lists of columns, give all. The form of specs names
/// features that a model reads without columns. Both throw InvalidArgument for no features, or
/// columns that disagree about one.
ServingInput json_serving_input(const FeatureColumnList& columns);
ServingInput json_serving_input(FeatureSpecs specs);

struct CsvServingOptions {
  /// All fields of a row, as the training data have them. Those that the model does not read, such
  /// as the label, must be in the row and are dropped.
  std::vector<CsvField> fields{};
  CsvOptions csv{};
  std::string key = "csv_row";
};
/// Rows of CSV, one string each. Throws as CsvDecoder does.
ServingInput csv_serving_input(CsvServingOptions options);

/// Serialized tf.Examples, parsed as the specs or columns say. Throws InvalidArgument as
/// json_serving_input() does.
ServingInput example_serving_input(FeatureSpecs specs, std::string key = "examples");
ServingInput example_serving_input(const FeatureColumnList& columns, std::string key = "examples");

/// The same input with one more way in. Throws InvalidArgument for a name that is empty or taken,
/// and for an alternative with alternatives of its own.
ServingInput with_alternative(ServingInput input, std::string name, ServingInput alternative);

}  // namespace muster
