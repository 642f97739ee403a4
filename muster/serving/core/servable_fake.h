#pragma once

#include <memory>
#include <string>
#include <utility>

#include "muster/base/error.h"
#include "muster/serving/core/servable.h"
#include "muster/testing/temp_dir.h"

/// For tests: models without libtorch. A version folder holds a file saved_model.pb whose text says
/// what it is: a number to add to x, or "broken".
namespace muster::serving {

class FakeServable : public Servable {
 public:
  explicit FakeServable(float added) : added_(added) {
    const graph::TensorInfo x{.name = "x:0", .dtype = graph::DataType::kFloat, .shape = {-1}};
    const graph::TensorInfo text{.name = "t:0", .dtype = graph::DataType::kString, .shape = {-1}};
    const graph::TensorInfo scores{
        .name = "s:0", .dtype = graph::DataType::kFloat, .shape = {-1, 2}};
    const graph::TensorInfo words{
        .name = "w:0", .dtype = graph::DataType::kString, .shape = {-1, 2}};
    signatures_["serving_default"] = {.inputs = {{"x", x}},
                                      .outputs = {{"y", x}},
                                      .method_name = std::string(graph::kPredictMethod)};
    signatures_["two"] = {.inputs = {{"text", text}, {"x", x}},
                          .outputs = {{"text_bytes", text}, {"y", x}},
                          .method_name = std::string(graph::kPredictMethod)};
    signatures_["classify"] = {.inputs = {{"inputs", text}},
                               .outputs = {{"classes", words}, {"scores", scores}},
                               .method_name = std::string(graph::kClassifyMethod)};
    signatures_["regress"] = {.inputs = {{"inputs", text}},
                              .outputs = {{"outputs", x}},
                              .method_name = std::string(graph::kRegressMethod)};
  }

  const Signatures& signatures() const override { return signatures_; }

  Tensors run(std::string_view signature, const Tensors& inputs) const override {
    using graph::TensorValue;
    if (signature == "classify") {
      const auto rows = static_cast<std::int64_t>(inputs.at("inputs").strings.size());
      std::vector<std::string> words;
      std::vector<float> scores;
      for (std::int64_t i = 0; i < rows; ++i) {
        words.insert(words.end(), {"no", "yes"});
        scores.insert(scores.end(), {0.25F, 0.75F});
      }
      return {{"classes", TensorValue::of_strings({rows, 2}, words)},
              {"scores", TensorValue::of<float>({rows, 2}, std::span<const float>(scores))}};
    }
    if (signature == "regress") {
      std::vector<float> sizes;
      for (const auto& text : inputs.at("inputs").strings) {
        sizes.push_back(static_cast<float>(text.size()) + added_);
      }
      return {{"outputs", TensorValue::vector<float>(sizes)}};
    }
    const auto x = inputs.find("x");
    if (x == inputs.end()) throw InvalidArgument("input x is missing");
    auto values = x->second.values<float>();
    for (float& value : values) value += added_;
    Tensors outputs;
    outputs.emplace("y", TensorValue::of<float>(x->second.shape, std::span<const float>(values)));
    if (signature == "two") outputs.emplace("text_bytes", inputs.at("text"));
    return outputs;
  }

  // The output y is x and a constant.
  Explanations explain(std::string_view, const Tensors& inputs,
                       const executor::ExplainOptions& options,
                       const std::optional<Tensors>& baseline) const override {
    Explanations all;
    const float start = baseline ? baseline->at("x").values<float>()[0] : 0;
    for (const float x : inputs.at("x").values<float>()) {
      all.push_back({.output = "y",
                     .value = x + added_,
                     .baseline_value = start + added_,
                     .attributions = {{.feature = "x", .shape = {}, .values = {x - start}}},
                     .steps = options.steps,
                     .is_complete = true});
    }
    return all;
  }

 private:
  float added_;
  Signatures signatures_;
};

inline std::shared_ptr<const Servable> load_fake(const Path& dir) {
  const std::string text = read_file(dir / "saved_model.pb");
  if (text == "broken") throw DataLoss("{}: broken", dir.string());
  return std::make_shared<FakeServable>(std::stof(text));
}

inline void write_fake(const Path& dir, const std::string& text) {
  std::filesystem::create_directories(dir);
  testing::write_bytes(dir / "saved_model.pb", text);
}

}  // namespace muster::serving
