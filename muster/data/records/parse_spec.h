#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "muster/data/records/example_parser.h"

namespace muster {

/// Values that stand in for a missing feature: as many as the shape holds, or one that is repeated.
using FeatureDefault =
    std::variant<std::vector<std::int64_t>, std::vector<float>, std::vector<std::string>>;

/// A feature with the same number of values in every Example.
struct FixedLen {
  /// kBytes, kFloat or kInt64. kFloat also takes features that hold int64, which TensorFlow
  /// refuses: tables of whole numbers are written as int64.
  FeatureKind kind = FeatureKind::kInt64;
  /// Empty for a single value.
  std::vector<std::int64_t> shape{};
  /// Without it a missing feature is an error.
  std::optional<FeatureDefault> default_value{};
};

/// A feature with any number of values, also none.
struct VarLen {
  FeatureKind kind = FeatureKind::kInt64;
};

/// A feature list of a SequenceExample whose every step has the same number of values.
struct FixedLenSequence {
  FeatureKind kind = FeatureKind::kInt64;
  /// Shape of one step.
  std::vector<std::int64_t> shape{};
  /// A missing list then counts as one of no steps; else it is an error.
  bool allow_missing = false;
};

using FeatureSpec = std::variant<FixedLen, VarLen>;
using SequenceSpec = std::variant<FixedLenSequence, VarLen>;
using FeatureSpecs = std::vector<std::pair<std::string, FeatureSpec>>;
using SequenceSpecs = std::vector<std::pair<std::string, SequenceSpec>>;

/// The values of one feature over a batch, one Example after the other.
struct ParsedColumn {
  std::string key{};
  std::variant<std::vector<std::int64_t>, std::vector<float>, std::vector<std::string_view>>
      values{};
  /// Where the number of values (FixedLenSequence: of steps) differs: that of Example i is
  /// row_splits[i + 1] - row_splits[i]. Empty for FixedLen.
  std::vector<std::int64_t> row_splits{};
  /// Only for a VarLen feature list, whose row_splits then count steps: step s holds the values
  /// from step_splits[s] to step_splits[s + 1].
  std::vector<std::int64_t> step_splits{};

  /// Throws InvalidArgument, naming the key and both types, for another type than the column's.
  std::span<const std::int64_t> int64s() const;
  std::span<const float> floats() const;
  std::span<const std::string_view> bytes() const;
};

/// One column a spec, in the order of the specs.
struct ParsedColumns {
  std::size_t rows = 0;
  std::vector<ParsedColumn> columns{};
  /// The memory of strings that could not be views into their Example; practically always none.
  std::vector<std::shared_ptr<const void>> owners{};

  /// Throws NotFound.
  const ParsedColumn& operator[](std::string_view key) const;
};

/// Says in an error which Example of a batch it was: "train.tfrecords record 16".
using ExampleName = std::function<std::string(std::size_t row)>;

/// Turns Examples into columns as the specs say. A missing feature without a default, a wrong kind
/// or a wrong number of values throws InvalidArgument with the key and what was found and wanted;
/// damaged bytes throw DataLoss. Strings are views into the Examples, or into this decoder for
/// defaults, so both must outlive the columns. Safe to use from several threads.
class ExampleDecoder {
 public:
  /// Throws InvalidArgument for a negative dimension, a default of the wrong kind or count, or a
  /// key that occurs twice.
  explicit ExampleDecoder(FeatureSpecs specs);

  ParsedColumns decode(std::span<const std::string_view> examples,
                       const ExampleName& name = {}) const;
  /// Appends one Example; on an error `out` stays as it was.
  void append(std::string_view example, ParsedColumns& out) const;
  /// Columns that append() starts from: every column, without rows.
  ParsedColumns empty_columns() const;

 private:
  FeatureSpecs specs_;
  ExampleParser parser_;
};

/// The same for SequenceExamples: the context's columns first, then those of the feature lists.
class SequenceExampleDecoder {
 public:
  SequenceExampleDecoder(FeatureSpecs context_specs, SequenceSpecs list_specs);

  ParsedColumns decode(std::span<const std::string_view> examples,
                       const ExampleName& name = {}) const;
  void append(std::string_view example, ParsedColumns& out) const;
  ParsedColumns empty_columns() const;

 private:
  FeatureSpecs context_specs_;
  SequenceSpecs list_specs_;
  SequenceExampleParser parser_;
};

/// One Example, once. A loop makes an ExampleDecoder instead; `specs` must outlive the columns,
/// whose default strings are views into it.
ParsedColumns parse_example(std::string_view example, const FeatureSpecs& specs);

}  // namespace muster
