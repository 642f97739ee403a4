#include <fmt/ranges.h>
#include <torch/types.h>

#include <optional>

#include "muster/base/error.h"
#include "muster/data/features/batch.h"
#include "muster/data/features/collate.h"
#include "muster/nn/model/head_labels_internal.h"

namespace muster::internal {
namespace {

std::string shortened(const std::vector<std::string>& words) {
  constexpr std::size_t kShown = 10;
  if (words.size() <= kShown) return fmt::format("{}", fmt::join(words, ", "));
  return fmt::format("{}, ... ({} in all)", fmt::join(words.begin(), words.begin() + kShown, ", "),
                     words.size());
}

std::shared_ptr<const std::vector<std::string>> make_names(
    std::int64_t classes, const std::vector<std::string>& vocabulary) {
  if (!vocabulary.empty()) return std::make_shared<const std::vector<std::string>>(vocabulary);
  std::vector<std::string> names;
  for (std::int64_t id = 0; id < classes; ++id) names.push_back(fmt::format("{}", id));
  return std::make_shared<const std::vector<std::string>>(std::move(names));
}

struct Outside {
  std::int64_t row;
  double value;
};

template <typename Value>
std::optional<Outside> first_outside(const at::Tensor& values, double low, double high) {
  const auto* const data = values.data_ptr<Value>();
  const std::int64_t columns = values.dim() > 1 ? values.size(1) : 1;
  for (std::int64_t i = 0; i < values.numel(); ++i) {
    const auto value = static_cast<double>(data[i]);
    // Written so that NaN is outside.
    if (!(value >= low && value <= high)) return Outside{i / columns, value};
  }
  return std::nullopt;
}

// Walks the usual types where they lie: this runs in every step, and a conversion would cost more
// than the walk.
std::optional<Outside> find_outside(const at::Tensor& values, double low, double high) {
  switch (values.scalar_type()) {
    case at::kFloat:
      return first_outside<float>(values, low, high);
    case at::kLong:
      return first_outside<std::int64_t>(values, low, high);
    case at::kInt:
      return first_outside<std::int32_t>(values, low, high);
    default:
      return first_outside<double>(values.to(at::kDouble), low, high);
  }
}

}  // namespace

Label Label::of(const Features& labels, std::string_view head_name) {
  if (labels.empty()) {
    throw InvalidArgument(
        "labels are missing: the input function must give a label named \"{}\" for training and "
        "evaluation",
        head_name.empty() ? kLabel : head_name);
  }
  if (!head_name.empty()) {
    if (const auto* value = labels.find(head_name)) return {head_name, *value};
  }
  if (const auto* value = labels.find(kLabel)) return {kLabel, *value};
  throw NotFound("there is no label \"{}\"; there are: {}. Name the label so, or name the head",
                 head_name.empty() ? kLabel : head_name, labels.names());
}

at::Tensor dense_label(const Label& label, std::int64_t dimension) {
  const auto* tensor = std::get_if<at::Tensor>(&label.value);
  if (tensor != nullptr) {
    if (dimension == 1 && tensor->dim() == 1) return tensor->unsqueeze(1);
    if (tensor->dim() == 2 && tensor->size(1) == dimension) return *tensor;
  }
  const std::string wanted = dimension == 1 ? "a tensor [batch] or [batch, 1]"
                                            : fmt::format("a tensor [batch, {}]", dimension);
  const std::string_view fix = tensor == nullptr ? "turn it into numbers in the input function"
                               : dimension == 1
                                   ? "give one value an example, or use a head with more dimensions"
                                   : "check the head's number of classes or label_dimension";
  throw InvalidArgument("label \"{}\" is {}, but the head wants {}: {}", label.name,
                        describe(label.value), wanted, fix);
}

void check_range(const Label& label, const at::Tensor& values, double low, double high) {
  if (!values.is_cpu()) return;
  const auto found = find_outside(values.contiguous(), low, high);
  if (!found) return;
  throw InvalidArgument("label \"{}\" is {} in row {} of the batch, but must be in [{}, {}]",
                        label.name, found->value, found->row, low, high);
}

ClassNames::ClassNames(std::int64_t classes, const std::vector<std::string>& vocabulary)
    : names_(make_names(classes, vocabulary)), has_vocabulary_(!vocabulary.empty()) {
  if (count() != classes) {
    throw InvalidArgument("label_vocabulary has {} words for {} classes", count(), classes);
  }
  if (!has_vocabulary_) return;
  for (std::int64_t id = 0; id < classes; ++id) {
    const auto& word = names()[static_cast<std::size_t>(id)];
    if (!ids_.emplace(word, id).second) {
      throw InvalidArgument("label_vocabulary has the word \"{}\" twice", word);
    }
  }
}

std::string ClassNames::metric_suffix(std::int64_t id) const {
  const auto& name = names()[static_cast<std::size_t>(id)];
  return has_vocabulary_ ? fmt::format("/{}", name) : fmt::format("/class{}", name);
}

void ClassNames::check_ids(const std::vector<std::int64_t>& ids) const {
  for (const auto id : ids) {
    if (id >= 0 && id < count()) continue;
    throw InvalidArgument("classes_for_class_based_metrics has {}, which is not in [0, {})", id,
                          count());
  }
}

std::int64_t ClassNames::id_of(const Label& label, std::string_view word, std::int64_t row) const {
  if (!has_vocabulary_) {
    throw InvalidArgument(
        "label \"{}\" holds strings: set the head's label_vocabulary, or give ids as int64",
        label.name);
  }
  const auto found = ids_.find(word);
  if (found != ids_.end()) return found->second;
  throw InvalidArgument(
      "label \"{}\" is \"{}\" in row {} of the batch, which is not in "
      "label_vocabulary: {}",
      label.name, word, row, shortened(names()));
}

at::Tensor ClassNames::ids_of(const Label& label) const {
  const auto* strings = std::get_if<StringColumn>(&label.value);
  if (strings == nullptr) {
    if (has_vocabulary_) {
      throw InvalidArgument(
          "label \"{}\" is {}, but the head has a label_vocabulary: give its words, or leave the "
          "vocabulary out",
          label.name, describe(label.value));
    }
    return dense_label(label, 1);
  }
  const auto rows = strings->rows();
  if (static_cast<std::int64_t>(strings->values().size()) != rows) {
    throw InvalidArgument("label \"{}\" is {}, but the head wants one word an example", label.name,
                          describe(label.value));
  }
  std::vector<std::int64_t> ids;
  ids.reserve(static_cast<std::size_t>(rows));
  for (std::int64_t row = 0; row < rows; ++row) {
    const auto words = strings->row(row);
    if (words.size() != 1) {
      throw InvalidArgument("label \"{}\" has {} words in row {} of the batch, not one", label.name,
                            words.size(), row);
    }
    ids.push_back(id_of(label, words[0], row));
  }
  return tensor_of(std::move(ids), {rows, 1});
}

StringColumn ClassNames::names_of(const at::Tensor& ids) const {
  const auto flat = ids.to(at::kCPU, torch::kLong).contiguous();
  const auto* const data = flat.data_ptr<std::int64_t>();
  std::vector<std::string_view> views;
  views.reserve(static_cast<std::size_t>(flat.numel()));
  for (std::int64_t i = 0; i < flat.numel(); ++i) {
    views.emplace_back(names()[static_cast<std::size_t>(data[i])]);
  }
  return {std::move(views), ids.sizes().vec(), names_};
}

StringColumn ClassNames::all_names(std::int64_t rows) const {
  std::vector<std::string_view> views;
  views.reserve(static_cast<std::size_t>(rows * count()));
  for (std::int64_t row = 0; row < rows; ++row) {
    views.insert(views.end(), names().begin(), names().end());
  }
  return {std::move(views), {rows, count()}, names_};
}

}  // namespace muster::internal
