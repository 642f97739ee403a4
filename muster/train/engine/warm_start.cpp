#include "muster/train/engine/train_options.h"

#include <ATen/Functions.h>
#include <ATen/TensorIndexing.h>
#include <fmt/ranges.h>
#include <torch/types.h>

#include <regex>
#include <unordered_map>
#include <utility>

#include "muster/base/error.h"
#include "muster/base/log.h"
#include "muster/data/checkpoint/checkpoint.h"
#include "muster/data/records/text_lines.h"
#include "muster/train/engine/tensor_codec.h"

namespace muster {
namespace {

std::vector<std::string> read_vocabulary(const Path& path, std::optional<std::int64_t> size) {
  const auto source = open_text_lines(path);
  std::vector<std::string> tokens;
  Record line;
  while ((!size || static_cast<std::int64_t>(tokens.size()) < *size) && source->next(line)) {
    tokens.emplace_back(line.bytes);
  }
  if (size && static_cast<std::int64_t>(tokens.size()) < *size) {
    throw InvalidArgument("the vocabulary {} has {} lines, {} are asked for", path.string(),
                          tokens.size(), *size);
  }
  return tokens;
}

// Old rows under their new numbers. Tokens that are new and buckets for unknown ones keep what the
// model began with.
at::Tensor remapped(const at::Tensor& fresh, const at::Tensor& old, const VocabInfo& info,
                    const std::string& name) {
  if (info.axis != 0 && info.axis != 1) {
    throw InvalidArgument("VocabInfo of {}: axis must be 0 or 1: {}", name, info.axis);
  }
  const auto old_tokens = read_vocabulary(info.old_vocab, info.old_vocab_size);
  const auto new_tokens = read_vocabulary(info.new_vocab, info.new_vocab_size);
  const auto wanted = static_cast<std::int64_t>(new_tokens.size()) + info.num_oov_buckets;
  if (fresh.size(info.axis) != wanted) {
    throw InvalidArgument(
        "VocabInfo of {}: the variable has {} rows, but vocabulary and buckets make {}", name,
        fresh.size(info.axis), wanted);
  }
  std::unordered_map<std::string, std::int64_t> old_rows;
  for (std::size_t i = 0; i < old_tokens.size(); ++i) {
    old_rows.emplace(old_tokens[i], static_cast<std::int64_t>(i));
  }
  at::Tensor result = fresh.clone();
  for (std::size_t i = 0; i < new_tokens.size(); ++i) {
    const auto found = old_rows.find(new_tokens[i]);
    if (found == old_rows.end() || found->second >= old.size(info.axis)) continue;
    result.select(info.axis, static_cast<std::int64_t>(i))
        .copy_(old.select(info.axis, found->second));
  }
  return result;
}

class Selection {
 public:
  explicit Selection(const WarmStartSettings& settings)
      : trainable_only_(settings.vars_to_warm_start.size() == 1) {
    for (const auto& text : settings.vars_to_warm_start) {
      try {
        patterns_.emplace_back(text);
      } catch (const std::regex_error& error) {
        throw InvalidArgument("WarmStartSettings: '{}' is no regular expression: {}", text,
                              error.what());
      }
    }
  }

  // As in tf.estimator, an expression has to match the beginning of a name.
  bool contains(const WarmStartTarget& target) const {
    if (trainable_only_ && !target.trainable) return false;
    for (const auto& pattern : patterns_) {
      if (std::regex_search(target.variable.name, pattern, std::regex_constants::match_continuous))
        return true;
    }
    return false;
  }

 private:
  bool trainable_only_;
  std::vector<std::regex> patterns_;
};

}  // namespace

void warm_start(std::span<const WarmStartTarget> targets, const WarmStartSettings& settings) {
  const torch::NoGradGuard no_grad;
  const BundleReader bundle(resolve_checkpoint(settings.ckpt_to_initialize_from));
  const Selection selection(settings);
  std::size_t count = 0;
  for (const auto& target : targets) {
    const std::string& name = target.variable.name;
    const auto vocabulary = settings.var_name_to_vocab_info.find(name);
    const bool has_vocabulary = vocabulary != settings.var_name_to_vocab_info.end();
    if (!has_vocabulary && !selection.contains(target)) continue;
    const auto renamed = settings.var_name_to_prev_var_name.find(name);
    const std::string& old_name =
        renamed == settings.var_name_to_prev_var_name.end() ? name : renamed->second;
    if (!bundle.contains(old_name)) {
      throw NotFound(
          "warm start: the checkpoint {} has no variable {}; give its older name in "
          "var_name_to_prev_var_name, "
          "or leave {} out of vars_to_warm_start",
          bundle.prefix().string(), old_name, name);
    }
    at::Tensor value = decode(bundle, old_name, target.layout);
    if (has_vocabulary) value = remapped(target.variable.tensor, value, vocabulary->second, name);
    if (value.sizes() != target.variable.tensor.sizes()) {
      throw InvalidArgument(
          "warm start: {} has the shape {} in the model, but {} has {} in {}", name,
          shape_text(checkpoint_shape(target.variable.tensor.sizes(), target.layout)), old_name,
          shape_text(bundle.spec(old_name).shape), bundle.prefix().string());
    }
    target.variable.tensor.copy_(value);
    log::debug("warm start: {} from {}", name, old_name);
    ++count;
  }
  if (count == 0) {
    std::vector<std::string> names;
    for (const auto& target : targets) names.push_back(target.variable.name);
    throw InvalidArgument(
        "warm start: vars_to_warm_start ('{}') matches none of the model's variables: {}",
        fmt::join(settings.vars_to_warm_start, "', '"), fmt::join(names, ", "));
  }
  log::info("Warm-starting {} variables from {}", count, bundle.prefix().string());
}

}  // namespace muster
