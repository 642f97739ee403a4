#include "muster/train/compiler/program.h"

#include <c10/util/BFloat16.h>
#include <c10/util/Half.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <set>

#include "muster/base/error.h"

namespace muster::compiler {
namespace {

// Product of the sizes after each dimension, 1 for the last; that of all sizes comes first.
std::vector<std::int64_t> suffix_products(const std::vector<std::int64_t>& sizes) {
  std::vector<std::int64_t> products(sizes.size() + 1, 1);
  for (std::size_t i = sizes.size(); i-- > 0;) products[i] = products[i + 1] * sizes[i];
  return products;
}

void for_each_operand(Program& program, const auto& work) {
  for (Operand& operand : program.inputs) work(operand);
  for (Operand& operand : program.outputs) work(operand);
}

// The sums' own memory is no part of the loop.
bool is_looped(const Program& program, const Operand& operand) {
  return operand.strides.size() == program.sizes.size();
}

bool can_join(const Program& program, std::size_t first) {
  const auto joins = [&](const Operand& operand) {
    return !is_looped(program, operand) ||
           operand.strides[first] == operand.strides[first + 1] * program.sizes[first + 1];
  };
  return std::ranges::all_of(program.inputs, joins) && std::ranges::all_of(program.outputs, joins);
}

void join(Program& program, std::size_t first) {
  for_each_operand(program, [&](Operand& operand) {
    if (!is_looped(program, operand)) return;
    operand.strides.erase(operand.strides.begin() + static_cast<std::ptrdiff_t>(first));
  });
  program.sizes[first + 1] *= program.sizes[first];
  program.sizes.erase(program.sizes.begin() + static_cast<std::ptrdiff_t>(first));
}

float load(const at::Tensor& tensor, std::int64_t at) {
  switch (tensor.scalar_type()) {
    case at::kFloat:
      return tensor.data_ptr<float>()[at];
    case at::kBFloat16:
      return tensor.data_ptr<c10::BFloat16>()[at];
    case at::kHalf:
      return tensor.data_ptr<c10::Half>()[at];
    case at::kBool:
      return tensor.data_ptr<bool>()[at] ? 1.0F : 0.0F;
    default:
      throw Internal("a program has no values of type {}", c10::toString(tensor.scalar_type()));
  }
}

void store(const at::Tensor& tensor, std::int64_t at, float value) {
  switch (tensor.scalar_type()) {
    case at::kFloat:
      tensor.data_ptr<float>()[at] = value;
      return;
    case at::kBFloat16:
      tensor.data_ptr<c10::BFloat16>()[at] = value;
      return;
    case at::kHalf:
      tensor.data_ptr<c10::Half>()[at] = value;
      return;
    case at::kBool:
      tensor.data_ptr<bool>()[at] = value != 0;
      return;
    default:
      throw Internal("a program has no values of type {}", c10::toString(tensor.scalar_type()));
  }
}

/// One element after the other.
class Evaluation {
 public:
  Evaluation(const Program& program, std::span<const at::Tensor> inputs,
             std::span<const at::Tensor> outputs)
      : program_(program), inputs_(inputs), outputs_(outputs), values_(program.code.size()) {}

  void run() {
    for (std::size_t i = 0; i < program_.partials.size(); ++i) partial(i).zero_();
    if (program_.kind == Program::Kind::kRows) return rows();
    std::vector<std::int64_t> at(program_.sizes.size(), 0);
    for (std::int64_t i = 0; i < program_.elements(); ++i) {
      element(at);
      for (std::size_t d = at.size(); d-- > 0;) {
        if (++at[d] < program_.sizes[d]) break;
        at[d] = 0;
      }
    }
  }

 private:
  static std::int64_t place(const Operand& operand, const std::vector<std::int64_t>& at) {
    return std::inner_product(at.begin(), at.end(), operand.strides.begin(), std::int64_t{0});
  }

  void element(const std::vector<std::int64_t>& at) {
    for (std::size_t i = 0; i < program_.code.size(); ++i) values_[i] = value(program_.code[i], at);
    write(at);
    add_up(at);
  }

  void write(const std::vector<std::int64_t>& at) const {
    for (const Program::Store& one : program_.stores) {
      const auto to = static_cast<std::size_t>(one.place);
      const Operand& operand = one.into_input ? program_.inputs[to] : program_.outputs[to];
      store(one.into_input ? inputs_[to] : outputs_[to], place(operand, at), get(one.value));
    }
  }

  // One instruction for all columns of a row, then the next.
  void rows() {
    const std::int64_t columns = program_.sizes[1];
    std::vector<std::vector<float>> of_columns(static_cast<std::size_t>(columns), values_);
    for (std::int64_t row = 0; row < program_.sizes[0]; ++row) {
      for (std::size_t i = 0; i < program_.code.size(); ++i) instruction(i, row, of_columns);
      for (std::int64_t column = 0; column < columns; ++column) {
        values_ = of_columns[static_cast<std::size_t>(column)];
        write({row, column});
        add_up({row, column});
      }
    }
  }

  void instruction(std::size_t i, std::int64_t row, std::vector<std::vector<float>>& of_columns) {
    const Instruction& one = program_.code[i];
    if (is_of_row(one)) {
      const float all = join_row(one, of_columns);
      for (std::vector<float>& values : of_columns) values[i] = all;
      return;
    }
    for (std::size_t column = 0; column < of_columns.size(); ++column) {
      values_.swap(of_columns[column]);
      const float made = value(one, {row, static_cast<std::int64_t>(column)});
      values_.swap(of_columns[column]);
      of_columns[column][i] = made;
    }
  }

  static float join_row(const Instruction& one, const std::vector<std::vector<float>>& of_columns) {
    const auto a = static_cast<std::size_t>(one.a);
    float all = of_columns[0][a];
    for (std::size_t column = 1; column < of_columns.size(); ++column) {
      const float next = of_columns[column][a];
      all = one.op == ScalarOp::kRowSum ? all + next : (next > all || next != next ? next : all);
    }
    return all;
  }

  const at::Tensor& partial(std::size_t number) const {
    return outputs_[outputs_.size() - program_.partials.size() + number];
  }

  void add_up(const std::vector<std::int64_t>& at) const {
    std::size_t sum = 0;
    for (std::size_t i = 0; i < program_.partials.size(); ++i) {
      float* const sums = partial(i).data_ptr<float>();
      for (std::int64_t k = 0; k < program_.partials[i]; ++k) {
        const std::int64_t rows = (program_.sizes[0] + program_.blocks - 1) / program_.blocks;
        const std::int64_t column = k * program_.sizes[1] + at[1];
        sums[column * program_.blocks + at[0] / rows] += get(program_.sums[sum++]);
      }
    }
  }

  float get(int instruction) const { return values_[static_cast<std::size_t>(instruction)]; }

  float sum(int number, std::int64_t column) const {
    float all = 0;
    const float* const sums = inputs_[0].data_ptr<float>();
    for (std::int64_t block = 0; block < program_.blocks; ++block) {
      all += sums[(number * program_.sizes[0] + column) * program_.blocks + block];
    }
    return all;
  }

  float value(const Instruction& one, const std::vector<std::int64_t>& at) const {
    const float a = one.a < 0 ? 0 : get(one.a);
    const float b = one.b < 0 ? 0 : get(one.b);
    const auto operand = static_cast<std::size_t>(std::max(one.place, 0));
    switch (one.op) {
      case ScalarOp::kConstant:
        return one.constant;
      case ScalarOp::kLoad:
        return load(inputs_[operand], place(program_.inputs[operand], at));
      case ScalarOp::kSum:
        return sum(one.place, at[0]);
      case ScalarOp::kRowSum:
      case ScalarOp::kRowMax:
        throw Internal("a row is joined by no single element");
      case ScalarOp::kAdd:
        return a + b;
      case ScalarOp::kSubtract:
        return a - b;
      case ScalarOp::kMultiply:
        return a * b;
      case ScalarOp::kDivide:
        return a / b;
      case ScalarOp::kNegate:
        return -a;
      case ScalarOp::kAbsolute:
        return std::fabs(a);
      case ScalarOp::kExp:
        return std::exp(a);
      case ScalarOp::kLog:
        return std::log(a);
      case ScalarOp::kSqrt:
        return std::sqrt(a);
      case ScalarOp::kTanh:
        return std::tanh(a);
      case ScalarOp::kErf:
        return std::erf(a);
      case ScalarOp::kGreater:
        return a > b ? 1.0F : 0.0F;
      case ScalarOp::kLess:
        return a < b ? 1.0F : 0.0F;
      case ScalarOp::kEqual:
        return a == b ? 1.0F : 0.0F;
      case ScalarOp::kSelect:
        return a != 0 ? b : get(one.c);
    }
    return 0;
  }

  const Program& program_;
  std::span<const at::Tensor> inputs_;
  std::span<const at::Tensor> outputs_;
  std::vector<float> values_;
};

}  // namespace

std::int64_t Program::elements() const { return suffix_products(sizes)[0]; }

bool has_rows_and_columns(Program::Kind kind) {
  return kind == Program::Kind::kRows || kind == Program::Kind::kColumnSums;
}

bool is_of_row(const Instruction& instruction) {
  return instruction.op == ScalarOp::kRowSum || instruction.op == ScalarOp::kRowMax;
}

bool is_linear(const Program& program, const Operand& operand) {
  const auto products = suffix_products(program.sizes);
  return is_looped(program, operand) &&
         std::equal(operand.strides.begin(), operand.strides.end(), products.begin() + 1);
}

void collapse(Program& program) {
  if (has_rows_and_columns(program.kind)) return;
  for (std::size_t d = 0; d + 1 < program.sizes.size();) {
    if (can_join(program, d)) {
      join(program, d);
    } else {
      ++d;
    }
  }
}

bool refine(Program& program, const std::vector<std::int64_t>& sizes) {
  const auto own = suffix_products(program.sizes);
  const auto wanted = suffix_products(sizes);
  for (const std::int64_t product : own) {
    if (std::ranges::find(wanted, product) == wanted.end()) return false;
  }
  for_each_operand(program, [&](Operand& operand) {
    if (!is_looped(program, operand)) return;
    std::vector<std::int64_t> strides(sizes.size());
    for (std::size_t d = 0; d < sizes.size(); ++d) {
      // The dimension of before that this one is a part of.
      std::size_t of = 0;
      while (of + 1 < program.sizes.size() && own[of + 1] > wanted[d + 1]) ++of;
      strides[d] = operand.strides[of] * (wanted[d + 1] / own[of + 1]);
    }
    operand.strides = std::move(strides);
  });
  program.sizes = sizes;
  return true;
}

std::optional<std::vector<std::int64_t>> common_sizes(const std::vector<std::int64_t>& left,
                                                      const std::vector<std::int64_t>& right) {
  std::set<std::int64_t> products;
  for (const auto& sizes : {left, right}) {
    for (const std::int64_t product : suffix_products(sizes)) products.insert(product);
  }
  std::vector<std::int64_t> sizes;
  std::int64_t before = 1;
  for (const std::int64_t product : products) {
    if (product % before != 0) return std::nullopt;
    if (product != before) sizes.insert(sizes.begin(), product / before);
    before = product;
  }
  if (sizes.empty()) sizes = {1};
  return suffix_products(left)[0] == suffix_products(right)[0] ? std::optional(sizes)
                                                               : std::nullopt;
}

void evaluate(const Program& program, std::span<const at::Tensor> inputs,
              std::span<const at::Tensor> outputs) {
  Evaluation(program, inputs, outputs).run();
}

std::string describe(const Program& program) {
  const char* const kinds[] = {"elements", "rows", "sums of columns", "columns"};
  return fmt::format("{} [{}], {} loads, {} instructions, {} stores, {} sums",
                     kinds[static_cast<std::size_t>(program.kind)], fmt::join(program.sizes, ", "),
                     program.inputs.size(), program.code.size(), program.stores.size(),
                     program.sums.size());
}

}  // namespace muster::compiler
