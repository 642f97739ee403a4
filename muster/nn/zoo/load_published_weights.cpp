#include "muster/nn/zoo/load_published_weights.h"

#include <regex>
#include <string>
#include <utility>
#include <vector>

#include "muster/data/weights/weights.h"

namespace muster::zoo {
namespace {

struct PublishedName {
  enum class Rule { kRename, kReplace, kDrop };
  /// Network that the rule is for; empty: all.
  const char* network;
  Rule rule;
  const char* pattern;
  const char* text;
};

using Rule = PublishedName::Rule;
constexpr PublishedName kPublishedNames[] = {
    {"", Rule::kRename, R"(module\.(.*))", "$1"},
    // torchvision's first names of the dense layers.
    {"vision_transformer", Rule::kReplace, R"(\.mlp\.linear_1\.)", ".mlp.0."},
    {"vision_transformer", Rule::kReplace, R"(\.mlp\.linear_2\.)", ".mlp.3."},
    // TensorFlow's words, as in the files of 2019.
    {"bert", Rule::kReplace, R"(LayerNorm\.gamma$)", "LayerNorm.weight"},
    {"bert", Rule::kReplace, R"(LayerNorm\.beta$)", "LayerNorm.bias"},
    // A BertModel, without the classes around it.
    {"bert", Rule::kRename, R"(((?:embeddings|encoder|pooler)\..*))", "bert.$1"},
    {"bert", Rule::kDrop, R"(bert\.embeddings\.position_ids)", ""},
    {"bert", Rule::kDrop, R"(cls\..*)", ""},
    // A GPT2Model, without the classes around it.
    {"gpt2", Rule::kRename, R"(((?:wte|wpe|h|ln_f)\..*))", "transformer.$1"},
    {"gpt2", Rule::kDrop, R"(transformer\.h\.\d+\.attn\.(?:masked_)?bias)", ""},
    // The table of tokens once more.
    {"gpt2", Rule::kDrop, R"(lm_head\.weight)", ""},
    // Buffers that follow from the sizes, in the files of 2023.
    {"llama", Rule::kDrop, R"(model\.layers\.\d+\.self_attn\.rotary_emb\.inv_freq)", ""},
};

/// Applies a rule to names; returns whether it changed any.
bool apply(const PublishedName& rule, std::vector<std::string>& names) {
  const std::regex pattern(rule.pattern);
  bool changed = false;
  std::vector<std::string> results;
  results.reserve(names.size());
  for (std::string& name : names) {
    const bool matches = rule.rule == Rule::kReplace ? std::regex_search(name, pattern)
                                                     : std::regex_match(name, pattern);
    changed = changed || matches;
    if (!matches) {
      results.push_back(std::move(name));
    } else if (rule.rule != Rule::kDrop) {
      results.push_back(std::regex_replace(name, pattern, rule.text));
    }
  }
  names = std::move(results);
  return changed;
}

void add(const PublishedName& rule, WeightMap& map) {
  switch (rule.rule) {
    case Rule::kRename:
      map.rename(rule.pattern, rule.text);
      return;
    case Rule::kReplace:
      map.replace(rule.pattern, rule.text);
      return;
    case Rule::kDrop:
      map.drop(rule.pattern);
  }
}

}  // namespace

WeightReport load_published_weights(Network& model, const Path& path, LoadWeightsOptions options) {
  std::vector<std::string> names;
  for (const Weight& weight : options.map.apply(open_weights(path, options.open).tensors)) {
    names.push_back(weight.name);
  }
  for (const PublishedName& rule : kPublishedNames) {
    const std::string_view network = rule.network;
    // A rule that matches nothing would be an error of the map.
    if ((network.empty() || network == model.name()) && apply(rule, names)) add(rule, options.map);
  }
  return load_weights(model, path, options);
}

}  // namespace muster::zoo
