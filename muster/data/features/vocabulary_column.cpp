#include <fmt/format.h>

#include <utility>

#include "muster/base/error.h"
#include "muster/data/features/word_ids_internal.h"

namespace muster {
namespace internal {

VocabularyColumn::VocabularyColumn(std::string key, Vocabulary vocabulary, CategoryType type,
                                   VocabularyOptions options, Path file)
    : Column(std::move(key)),
      vocabulary_(std::move(vocabulary)),
      type_(type),
      options_(options),
      file_(std::move(file)) {
  if (options_.num_oov_buckets < 0) {
    throw InvalidArgument("num_oov_buckets must not be negative: {}", options_.num_oov_buckets);
  }
  if (options_.num_oov_buckets > 0 && options_.default_value != -1) {
    throw InvalidArgument(
        "default_value = {} and num_oov_buckets = {}: give only one of them, as both say what "
        "becomes of unknown words",
        options_.default_value, options_.num_oov_buckets);
  }
  if (options_.default_value < -1 || options_.default_value >= vocabulary_.size()) {
    throw InvalidArgument(
        "default_value must be -1, which drops unknown words, or an id below {}: {}",
        vocabulary_.size(), options_.default_value);
  }
}

FeatureSpecs VocabularyColumn::parse_specs() const { return var_len_words(key(), type_); }

ColumnIds VocabularyColumn::compute_ids(ColumnBatch& batch) const {
  const auto oov_buckets = static_cast<std::uint64_t>(options_.num_oov_buckets);
  return ids_of_words(batch, *this, key(), type_,
                      [this, oov_buckets](std::string_view word, std::uint64_t fingerprint) {
                        const auto id = vocabulary_.find(word, fingerprint);
                        if (id >= 0) return id;
                        if (oov_buckets == 0) return options_.default_value;
                        return vocabulary_.size() +
                               static_cast<std::int64_t>(fingerprint % oov_buckets);
                      });
}

}  // namespace internal

namespace {

using internal::VocabularyColumn;

// Makes the column; errors say of which one they are.
template <typename MakeVocabulary>
FeatureColumn make_vocabulary_column(std::string_view maker, std::string key, CategoryType type,
                                     VocabularyOptions options, const Path& file,
                                     const MakeVocabulary& make_vocabulary) {
  key = internal::require_key(std::move(key), maker);
  try {
    auto vocabulary = make_vocabulary();
    return internal::make_column<VocabularyColumn>(key, std::move(vocabulary), type, options, file);
  } catch (Error& error) {
    error.add_context(fmt::format("{} \"{}\"", maker, key));
    throw;
  }
}

constexpr std::string_view kList = "categorical_column_with_vocabulary_list";
constexpr std::string_view kFile = "categorical_column_with_vocabulary_file";

}  // namespace

FeatureColumn categorical_column_with_vocabulary_list(std::string key,
                                                      std::vector<std::string> vocabulary,
                                                      VocabularyOptions options) {
  return make_vocabulary_column(kList, std::move(key), CategoryType::kString, options, {},
                                [&] { return Vocabulary(vocabulary); });
}

FeatureColumn categorical_column_with_vocabulary_list(std::string key,
                                                      std::vector<std::int64_t> vocabulary,
                                                      VocabularyOptions options) {
  std::vector<std::string> words;
  words.reserve(vocabulary.size());
  for (const auto number : vocabulary) words.push_back(fmt::format_int(number).str());
  return make_vocabulary_column(kList, std::move(key), CategoryType::kInt, options, {},
                                [&] { return Vocabulary(words); });
}

FeatureColumn categorical_column_with_vocabulary_file(std::string key, const Path& file,
                                                      std::optional<std::int64_t> vocabulary_size,
                                                      CategoryType type,
                                                      VocabularyOptions options) {
  return make_vocabulary_column(kFile, std::move(key), type, options, file, [&] {
    auto words = Vocabulary::from_file(file, vocabulary_size);
    return type == CategoryType::kInt ? words.as_numbers() : words;
  });
}

}  // namespace muster
