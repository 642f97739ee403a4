#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "muster/saved_model/graph/saved_model.h"
#include "muster/serving/batch/batch_job.h"
#include "muster/serving/codec/predictions.h"

namespace muster::serving {

/// Lays out the lines of results.
class LineWriter {
 public:
  LineWriter(const BatchJob& job, const graph::SignatureDef& signature);

  /// Empty for a format without one.
  std::string header() const;

  /// Appends the line of a row, ended.
  void append(const Predictions& predictions, std::int64_t row, const std::string* key,
              std::string& out) const;

 private:
  void append_json(const Predictions& predictions, std::int64_t row, const std::string* key,
                   std::string& out) const;
  void append_csv(const Predictions& predictions, std::int64_t row, const std::string* key,
                  std::string& out) const;

  BatchOutput format_;
  std::string key_field_;
  std::string key_name_{};
  std::vector<std::string> outputs_{};
};

/// The line of an instance that has no prediction.
std::string error_line(const std::string& instance, const std::string& error);

}  // namespace muster::serving
