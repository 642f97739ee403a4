#include "muster/nn/model/model_summary.h"

#include <fmt/ranges.h>
#include <torch/nn/module.h>

#include <algorithm>
#include <cstdint>
#include <vector>

#include "muster/nn/model/module_variables.h"

namespace muster {
namespace {

std::string with_commas(std::int64_t number) {
  std::string text = std::to_string(number);
  for (auto place = static_cast<std::int64_t>(text.size()) - 3; place > 0; place -= 3) {
    text.insert(static_cast<std::size_t>(place), ",");
  }
  return text;
}

std::int64_t bytes_of(const at::Tensor& tensor) {
  return tensor.numel() * static_cast<std::int64_t>(tensor.element_size());
}

}  // namespace

std::string model_summary(const torch::nn::Module& module) {
  const auto variables = variables_of(module);
  std::size_t name_width = std::string_view("variable").size();
  std::size_t shape_width = std::string_view("shape").size();
  std::vector<std::string> shapes;
  shapes.reserve(variables.size());
  for (const auto& variable : variables) {
    shapes.push_back(fmt::format(
        "[{}]", fmt::join(checkpoint_shape(variable.tensor.sizes(), variable.layout), ", ")));
    name_width = std::max(name_width, variable.name.size());
    shape_width = std::max(shape_width, shapes.back().size());
  }
  std::string text = fmt::format("{:<{}}  {:<{}}  {:>13}  {:>15}  trained\n", "variable",
                                 name_width, "shape", shape_width, "values", "bytes");
  std::int64_t values = 0;
  std::int64_t trained = 0;
  std::int64_t bytes = 0;
  for (std::size_t i = 0; i < variables.size(); ++i) {
    const auto& variable = variables[i];
    const std::int64_t count = variable.tensor.numel();
    text += fmt::format("{:<{}}  {:<{}}  {:>13}  {:>15}  {}\n", variable.name, name_width,
                        shapes[i], shape_width, with_commas(count),
                        with_commas(bytes_of(variable.tensor)), variable.trainable ? "yes" : "-");
    values += count;
    trained += variable.trainable ? count : 0;
    bytes += bytes_of(variable.tensor);
  }
  return text + fmt::format("{} values in {} variables, {} of them trained, {} bytes\n",
                            with_commas(values), variables.size(), with_commas(trained),
                            with_commas(bytes));
}

}  // namespace muster
