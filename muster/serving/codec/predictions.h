#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "muster/serving/codec/instances.h"

namespace muster::serving {

/// The outputs of a signature, read row by row: one prediction an instance.
class Predictions {
 public:
  /// An output of no dimensions is one row. Throws InvalidArgument for outputs of differing numbers
  /// of rows, Unimplemented for a type that JSON cannot hold.
  explicit Predictions(Tensors outputs);

  std::int64_t size() const { return size_; }
  /// The names of the outputs, sorted.
  std::vector<std::string> keys() const;

  /// One prediction as a JSON object, NaN and Infinity bare. Strings of an output whose name ends
  /// in "_bytes" are {"b64": "..."}. Throws InvalidArgument for other strings that are no UTF-8.
  std::string json(std::int64_t row) const;
  /// Appends the same without the braces around it.
  void append_fields(std::int64_t row, std::string& out) const;
  /// One value of it as JSON. Throws NotFound for an output that is not there.
  std::string json(std::int64_t row, std::string_view key) const;
  /// One value as `gcloud` shows it in a table: [0.25, 0.75], ['>50K'], a bare string as it is.
  std::string cell(std::int64_t row, std::string_view key) const;

 private:
  /// Properties that all rows of an output share.
  struct Column {
    /// The name as JSON, and what stands after it; also the value where all rows have the same.
    std::string label{};
    bool is_constant = false;
    /// Elements of a row.
    std::size_t width = 0;
  };

  Tensors outputs_;
  /// In the order of the outputs.
  std::vector<Column> columns_{};
  std::int64_t size_ = 0;
};

}  // namespace muster::serving
