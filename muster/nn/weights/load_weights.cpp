#include "muster/nn/weights/load_weights.h"

#include <ATen/Functions.h>
#include <fmt/core.h>
#include <fmt/ranges.h>
#include <torch/nn/module.h>

#include <algorithm>
#include <cstring>
#include <iterator>
#include <optional>
#include <regex>
#include <set>
#include <unordered_map>
#include <utility>

#include "muster/base/error.h"
#include "muster/base/log.h"
#include "muster/base/suggestion.h"
#include "muster/nn/model/module_variables.h"
#include "muster/nn/weights/weight_tensor.h"

namespace muster {
namespace {

/// Nearest names are looked for as often as they are shown.
constexpr std::size_t kMostNearest = 20;
constexpr std::string_view kBatchCount = "num_batches_tracked";

/// A variable and the tensor that it takes.
struct Assignment {
  const ModuleVariable* variable = nullptr;
  const Weight* weight = nullptr;
  VariableLayout layout = VariableLayout::kAsIs;
};

std::string spec_text(const at::Tensor& tensor, VariableLayout layout) {
  std::string type = c10::toString(tensor.scalar_type());
  std::transform(type.begin(), type.end(), type.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return fmt::format("{} {}", type, shape_text(checkpoint_shape(tensor.sizes(), layout)));
}

bool is_alike(at::ScalarType a, at::ScalarType b) {
  return a == b || (at::isFloatingType(a) && at::isFloatingType(b)) ||
         (at::isComplexType(a) && at::isComplexType(b)) ||
         (at::isIntegralType(a, false) && at::isIntegralType(b, false));
}

/// Finds out which variable takes which tensor.
class WeightMatcher {
 public:
  WeightMatcher(const std::vector<ModuleVariable>& variables, const std::vector<Weight>& tensors,
                const LoadWeightsOptions& options)
      : variables_(variables), tensors_(tensors) {
    for (const Weight& weight : tensors) by_name_.emplace(weight.name, &weight);
    for (const std::string& text : options.keep) {
      try {
        keep_.emplace_back(text);
      } catch (const std::regex_error& error) {
        throw InvalidArgument("LoadWeightsOptions::keep: '{}' is no regular expression: {}", text,
                              error.what());
      }
    }
  }

  WeightReport match() {
    std::vector<const ModuleVariable*> without;
    for (const ModuleVariable& variable : variables_) {
      const auto found = find(variable);
      if (found) used_.insert(found->weight);
      if (is_kept(variable)) {
        report_.kept.push_back(variable.key);
      } else if (found) {
        take(*found);
      } else {
        without.push_back(&variable);
      }
    }
    for (const Weight& weight : tensors_) {
      if (!used_.contains(&weight)) report_.unused.push_back(weight.name);
    }
    for (const ModuleVariable* variable : without) miss(*variable);
    if (assignments_.empty()) report_.hint = hint();
    return std::move(report_);
  }

  const std::vector<Assignment>& assignments() const { return assignments_; }

 private:
  std::optional<Assignment> find(const ModuleVariable& variable) const {
    if (const auto found = by_name_.find(variable.key); found != by_name_.end()) {
      return Assignment{&variable, found->second, VariableLayout::kAsIs};
    }
    if (const auto found = by_name_.find(variable.name); found != by_name_.end()) {
      return Assignment{&variable, found->second, variable.layout};
    }
    return std::nullopt;
  }

  bool is_kept(const ModuleVariable& variable) const {
    return std::any_of(keep_.begin(), keep_.end(), [&](const std::regex& pattern) {
      return std::regex_match(variable.key, pattern);
    });
  }

  void take(const Assignment& assignment) {
    const auto& [variable, weight, layout] = assignment;
    if (checkpoint_shape(variable->tensor.sizes(), layout) != weight->spec.shape) {
      report_.other_shape.push_back({variable->key, spec_text(variable->tensor, layout),
                                     weight->name, to_string(weight->spec)});
      return;
    }
    if (!is_alike(variable->tensor.scalar_type(), scalar_type_of(*weight))) {
      throw InvalidArgument("variable {} is {}, which the tensor {}, {}, is not converted to",
                            variable->key, spec_text(variable->tensor, layout), weight->name,
                            to_string(weight->spec));
    }
    assignments_.push_back(assignment);
    report_.matched.push_back({variable->key, weight->name});
  }

  void miss(const ModuleVariable& variable) {
    const bool is_shared = std::any_of(
        assignments_.begin(), assignments_.end(),
        [&](const Assignment& other) { return other.variable->tensor.is_same(variable.tensor); });
    if (is_shared) return;
    if (variable.key.ends_with(kBatchCount)) {
      report_.kept.push_back(variable.key);
      return;
    }
    WeightReport::Missing missing{variable.key, spec_text(variable.tensor, VariableLayout::kAsIs)};
    if (report_.missing.size() < kMostNearest && report_.unused.size() < 10'000) {
      missing.nearest = nearest_word(variable.key, report_.unused).value_or("");
    }
    report_.missing.push_back(std::move(missing));
  }

  /// A prefix up to a dot that all tensors have.
  std::string hint() const {
    if (tensors_.empty() || variables_.empty()) return "";
    const std::string& first = tensors_.front().name;
    const std::size_t dot = first.find('.');
    if (dot == first.npos) return "";
    const std::string prefix = first.substr(0, dot + 1);
    for (const Weight& weight : tensors_) {
      if (!weight.name.starts_with(prefix)) return "";
    }
    return fmt::format(
        "all names in the file begin with '{}': the rule 'rename {}\\.(.*) $1' takes it off",
        prefix, first.substr(0, dot));
  }

  const std::vector<ModuleVariable>& variables_;
  const std::vector<Weight>& tensors_;
  std::unordered_map<std::string_view, const Weight*> by_name_;
  std::vector<std::regex> keep_;
  std::set<const Weight*> used_;
  std::vector<Assignment> assignments_;
  WeightReport report_;
};

/// Whether the file's bytes are the variable's.
bool is_copied_as_it_is(const Assignment& assignment) {
  const at::Tensor& tensor = assignment.variable->tensor;
  return assignment.layout == VariableLayout::kAsIs && tensor.is_cpu() && tensor.is_contiguous() &&
         tensor.scalar_type() == scalar_type_of(*assignment.weight);
}

void assign(const Assignment& assignment) {
  if (is_copied_as_it_is(assignment)) {
    const WeightBytes bytes = row_major_bytes(*assignment.weight);
    if (bytes.bytes.empty()) return;
    std::memcpy(assignment.variable->tensor.data_ptr(), bytes.bytes.data(), bytes.bytes.size());
    return;
  }
  const at::Tensor value = tensor_of(*assignment.weight);
  assignment.variable->tensor.copy_(from_checkpoint_layout(value, assignment.layout));
}

/// Lines of one kind, and how many are not shown.
template <typename Items, typename Line>
void append_lines(std::string& text, const Items& items, std::size_t most, Line line) {
  for (std::size_t i = 0; i < items.size() && i < most; ++i) text += line(items[i]) + "\n";
  if (items.size() > most) text += fmt::format("  and {} more\n", items.size() - most);
}

}  // namespace

std::string WeightReport::text(std::size_t most) const {
  std::string text = fmt::format(
      "{} variables loaded, {} missing, {} of another shape, {} tensors unused, {} kept\n",
      matched.size(), missing.size(), other_shape.size(), unused.size(), kept.size());
  append_lines(text, missing, most, [](const Missing& one) {
    return fmt::format("  missing {}, {}{}", one.variable, one.spec,
                       one.nearest.empty() ? "" : "; the nearest tensor is " + one.nearest);
  });
  append_lines(text, other_shape, most, [](const OtherShape& one) {
    return fmt::format("  another shape: {} is {}, {} in the file {}", one.variable, one.spec,
                       one.tensor, one.tensor_spec);
  });
  append_lines(text, unused, most, [](const std::string& name) { return "  unused " + name; });
  if (!hint.empty()) text += "  " + hint + "\n";
  text.pop_back();
  return text;
}

WeightReport load_weights(torch::nn::Module& module, const Path& path,
                          const LoadWeightsOptions& options) {
  const at::NoGradGuard no_grad;
  const auto variables = variables_of(module);
  const Weights weights = open_weights(path, options.open);
  const auto tensors = options.map.apply(weights.tensors);
  WeightMatcher matcher(variables, tensors, options);
  WeightReport report = matcher.match();
  const bool has_nothing = report.matched.empty() && !variables.empty();
  if (has_nothing || (options.strict && !report.is_complete())) {
    throw InvalidArgument("the weights of {} do not fit the module: {}", path.string(),
                          report.text());
  }
  for (const Assignment& assignment : matcher.assignments()) assign(assignment);
  log::info("loaded weights path={} format={} variables={} missing={} unused={}", path.string(),
            name_of(weights.format), report.matched.size(), report.missing.size(),
            report.unused.size());
  return report;
}

void save_weights(const torch::nn::Module& module, const Path& path,
                  const SaveWeightsOptions& options) {
  WeightsOfTensors all;
  std::vector<Weight> tensors;
  for (const ModuleVariable& variable : variables_of(module)) {
    tensors.push_back(all.weight_of(variable.key, variable.tensor));
  }
  write_weights(path, options.map.apply(std::move(tensors)),
                {.format = weight_format_of(path), .metadata = options.metadata});
}

}  // namespace muster
