#include "muster/train/compiler/kernel_source.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "muster/train/compiler/kernel_part.h"

namespace muster::compiler {
namespace {

/// The kernel over the parts of all programs, and its twin on the host.
class KernelWriter {
 public:
  explicit KernelWriter(std::span<const Program> programs) : programs_(programs) {}

  KernelSource write() {
    std::string text = kernel_prelude(kKernelThreads);
    for (const Program& program : programs_) text += add(program);
    text += kernel() + runner();
    return {.text = std::move(text),
            .grid_x = blocks(&KernelPart::blocks_x),
            .grid_y = parts_[0].blocks_y,
            .threads = kKernelThreads};
  }

 private:
  // The function of a program that is there already is called again.
  std::string add(const Program& program) {
    const auto same = std::ranges::find(programs_, program);
    const auto first = static_cast<std::size_t>(same - programs_.begin());
    if (first < parts_.size()) {
      parts_.push_back(parts_[first]);
      names_.push_back(names_[first]);
      return {};
    }
    names_.push_back(fmt::format("part{}", parts_.size()));
    parts_.push_back(part_of(program, names_.back()));
    return parts_.back().text;
  }

  std::int64_t blocks(std::int64_t KernelPart::*of) const {
    std::int64_t all = 0;
    for (const KernelPart& part : parts_) all += part.*of;
    return all;
  }

  // The parameters' types in their order: inputs of all programs, then outputs.
  std::vector<std::string> types() const {
    std::vector<std::string> inputs;
    std::vector<std::string> outputs;
    for (const Program& program : programs_) {
      const auto all = parameter_types(program);
      const auto middle = all.begin() + static_cast<std::ptrdiff_t>(program.inputs.size());
      inputs.insert(inputs.end(), all.begin(), middle);
      outputs.insert(outputs.end(), middle, all.end());
    }
    inputs.insert(inputs.end(), outputs.begin(), outputs.end());
    return inputs;
  }

  std::string kernel() const {
    std::vector<std::string> declared;
    for (const std::string& type : types()) {
      declared.push_back(fmt::format("{} a{}", type, declared.size()));
    }
    std::size_t input = 0;
    std::size_t output = 0;
    for (const Program& program : programs_) output += program.inputs.size();
    std::string text = fmt::format("MUSTER_KERNEL muster_kernel({}) {{\n  int x = block_index.x;\n",
                                   fmt::join(declared, ", "));
    for (std::size_t i = 0; i < parts_.size(); ++i) {
      std::string given;
      for (std::size_t k = 0; k < programs_[i].inputs.size(); ++k) {
        given += fmt::format(", a{}", input++);
      }
      for (std::size_t k = 0; k < programs_[i].outputs.size(); ++k) {
        given += fmt::format(", a{}", output++);
      }
      text += fmt::format(
          "  {{\n    const int blocks = MUSTER_HOST ? {0} : {1};\n"
          "    if (x < blocks) return {2}(Place{{x, (int)block_index.y}}, Place{{blocks, {3}}}{4});"
          "\n    x -= blocks;\n  }}\n",
          parts_[i].host_blocks_x, parts_[i].blocks_x, names_[i], parts_[i].blocks_y, given);
    }
    return text + "}\n";
  }

  std::string runner() const {
    std::vector<std::string> given;
    for (const std::string& type : types()) {
      given.push_back(fmt::format("({})pointers[{}]", type, given.size()));
    }
    return fmt::format(
        "#ifdef MUSTER_ON_HOST\nextern \"C\" void muster_run(void** pointers) {{\n"
        "  for (block_index.y = 0; block_index.y < {}; ++block_index.y)\n"
        "    for (block_index.x = 0; block_index.x < {}; ++block_index.x)\n"
        "      muster_kernel({});\n}}\n#endif\n",
        parts_[0].blocks_y, blocks(&KernelPart::host_blocks_x), fmt::join(given, ", "));
  }

  std::span<const Program> programs_;
  std::vector<KernelPart> parts_{};
  std::vector<std::string> names_{};
};

}  // namespace

KernelSource source_of(const Program& program) { return source_of(std::span(&program, 1)); }

KernelSource source_of(std::span<const Program> programs) { return KernelWriter(programs).write(); }

}  // namespace muster::compiler
