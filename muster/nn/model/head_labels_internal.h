#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "muster/data/features/features.h"

namespace muster::internal {

/// The label of a head: the one with its name, or `label`.
struct Label {
  std::string_view name;
  const FeatureValue& value;

  /// Throws InvalidArgument when there are no labels, NotFound when none of them is this head's.
  static Label of(const Features& labels, std::string_view head_name);
};

/// A tensor [rows, dimension], also from [rows] where that is 1. Throws InvalidArgument, with what
/// was found and what to do, for strings, ragged labels and other shapes.
at::Tensor dense_label(const Label& label, std::int64_t dimension);

/// Throws InvalidArgument, naming the first row and value that is not, unless all are in
/// [low, high]. Does nothing for tensors on other devices, where looking would stall the step.
void check_range(const Label& label, const at::Tensor& values, double low, double high);

/// Names of classes: words of a vocabulary, or the ids in decimal.
class ClassNames {
 public:
  /// Throws InvalidArgument when there are words, but not as many as classes, or one occurs twice.
  ClassNames(std::int64_t classes, const std::vector<std::string>& vocabulary);

  bool has_vocabulary() const { return has_vocabulary_; }
  const std::vector<std::string>& names() const { return *names_; }
  std::int64_t count() const { return static_cast<std::int64_t>(names_->size()); }

  /// The names for a table: empty where they are the ids.
  std::vector<std::string> vocabulary() const {
    return has_vocabulary_ ? names() : std::vector<std::string>();
  }
  /// "/NAME" of a vocabulary, or "/classID", after the names of metrics of this class.
  std::string metric_suffix(std::int64_t id) const;
  /// Throws InvalidArgument for an id of classes_for_class_based_metrics that is not a class.
  void check_ids(const std::vector<std::int64_t>& ids) const;

  /// Ids of a dense string label, int64 [rows, 1], or of a numeric one as it is, [rows, 1]. Throws
  /// InvalidArgument for words without a vocabulary, numbers with one, and unknown words.
  at::Tensor ids_of(const Label& label) const;
  /// The id of one word; `row` is for the error.
  std::int64_t id_of(const Label& label, std::string_view word, std::int64_t row) const;

  /// The names of these ids, in their shape.
  StringColumn names_of(const at::Tensor& ids) const;
  /// All names, for every row: [rows, classes].
  StringColumn all_names(std::int64_t rows) const;

 private:
  std::shared_ptr<const std::vector<std::string>> names_;
  bool has_vocabulary_;
  std::unordered_map<std::string_view, std::int64_t> ids_;
};

}  // namespace muster::internal
