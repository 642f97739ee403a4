#include "muster/train/compiler/kernel_part.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <numeric>
#include <utility>
#include <vector>

#include "muster/base/error.h"
#include "muster/train/compiler/kernel_source.h"

namespace muster::compiler {
namespace {

/// How an operand's elements that one thread takes at a time lie.
enum class Access { kVector, kScalar, kEach };

/// Blocks that keep a large GPU busy all through a loop over elements.
constexpr std::int64_t kBusyBlocks = std::int64_t{132} * 8;
/// Elements of a loop that is spread over threads one by one.
constexpr std::int64_t kSmallLoop = 8192;
/// Elements of a row that one thread keeps in registers.
constexpr std::int64_t kMostOfRow = 32;

class PartWriter {
 public:
  PartWriter(const Program& program, std::string name)
      : program_(program), name_(std::move(name)) {}

  KernelPart write() {
    choose_width();
    switch (program_.kind) {
      case Program::Kind::kElements:
        if (const std::int64_t blocks = blocks_by_columns(); blocks > 0) {
          elements_by_columns(blocks);
        } else {
          elements();
        }
        break;
      case Program::Kind::kRows:
        rows();
        break;
      case Program::Kind::kColumnSums:
        column_sums();
        break;
      case Program::Kind::kColumns:
        columns();
        break;
    }
    part_.text = std::move(text_);
    return std::move(part_);
  }

 private:
  template <typename... Args>
  void line(fmt::format_string<Args...> format, Args&&... args) {
    text_ += fmt::format(format, std::forward<Args>(args)...) + "\n";
  }

  void begin_function() {
    std::vector<std::string> declared;
    const auto types = parameter_types(program_);
    for (std::size_t i = 0; i < types.size(); ++i) {
      const bool is_input = i < program_.inputs.size();
      declared.push_back(fmt::format("{} {}{}", types[i], is_input ? "in" : "out",
                                     is_input ? i : i - program_.inputs.size()));
    }
    line("MUSTER_INLINE void {}(const Place block_at, const Place grid_size, {}) {{", name_,
         fmt::join(declared, ", "));
  }

  std::int64_t inner() const { return program_.sizes.back(); }

  bool allows(const Operand& operand, std::int64_t width) const {
    if (operand.strides.size() != program_.sizes.size()) return true;
    const bool is_whole = operand.strides.back() == 1 && operand.aligned;
    if (!is_whole) return true;
    return std::all_of(operand.strides.begin(), operand.strides.end() - 1,
                       [&](std::int64_t stride) { return stride % width == 0; });
  }

  void choose_width() {
    width_ = 1;
    if (program_.kind == Program::Kind::kColumns || inner() % 8 != 0) return;
    const auto fits = [&](const Operand& operand) { return allows(operand, 8); };
    const bool all =
        std::ranges::all_of(program_.inputs, fits) && std::ranges::all_of(program_.outputs, fits);
    if (all && program_.elements() >= kSmallLoop) width_ = 8;
  }

  Access access(const Operand& operand) const {
    if (operand.strides.back() == 0) return Access::kScalar;
    return operand.strides.back() == 1 && operand.aligned && width_ > 1 ? Access::kVector
                                                                        : Access::kEach;
  }

  // Where the thread's elements begin, from the coordinates x0, x1, ...
  std::string place(const Operand& operand) const {
    std::string sum;
    for (std::size_t d = 0; d < program_.sizes.size(); ++d) {
      if (operand.strides[d] == 0) continue;
      sum +=
          fmt::format("{}{}x{}", sum.empty() ? "" : " + ",
                      operand.strides[d] == 1 ? "" : fmt::format("{} * ", operand.strides[d]), d);
    }
    return sum.empty() ? "0" : sum;
  }

  bool is_loaded(std::size_t input) const {
    return std::ranges::any_of(program_.code, [&](const Instruction& one) {
      return one.op == ScalarOp::kLoad && one.place == static_cast<int>(input);
    });
  }

  void load(std::size_t input) {
    const Operand& operand = program_.inputs[input];
    if (access(operand) == Access::kVector) {
      line("    const Some<{0}, {1}> v{2} = *(const Some<{0}, {1}>*)(in{2} + ({3}));",
           element_name(operand.type), width_, input, place(operand));
    } else {
      line("    const {}* const p{} = in{} + ({});", element_name(operand.type), input, input,
           place(operand));
    }
  }

  void loads(const auto& is_wanted) {
    for (std::size_t i = 0; i < program_.inputs.size(); ++i) {
      if (is_loaded(i) && is_wanted(i)) load(i);
    }
  }

  std::string loaded(int input) const {
    const Operand& operand = program_.inputs[static_cast<std::size_t>(input)];
    switch (access(operand)) {
      case Access::kVector:
        return fmt::format("get(v{}.at[j])", input);
      case Access::kScalar:
        return fmt::format("get(p{}[0])", input);
      case Access::kEach:
        return fmt::format("get(p{}[j * {}])", input, operand.strides.back());
    }
    return {};
  }

  // An earlier value. In rows, those of elements are arrays.
  std::string value(int instruction) const {
    const auto place = static_cast<std::size_t>(instruction);
    const bool is_array = program_.kind == Program::Kind::kRows && !of_row_[place];
    return fmt::format("r{}{}", instruction, is_array ? "[e]" : "");
  }

  std::string text_of(const Instruction& one) const {
    const auto a = one.a < 0 ? std::string() : value(one.a);
    const auto b = one.b < 0 ? std::string() : value(one.b);
    switch (one.op) {
      // Exact, and no literal has a value that C++ cannot write.
      case ScalarOp::kConstant:
        return fmt::format("float_of(0x{:08x}u)", __builtin_bit_cast(std::uint32_t, one.constant));
      case ScalarOp::kLoad:
        return loaded(one.place);
      case ScalarOp::kSum:
        return fmt::format("sum{}", one.place);
      case ScalarOp::kRowSum:
      case ScalarOp::kRowMax:
        throw Internal("a row is joined by no single element");
      case ScalarOp::kAdd:
        return a + " + " + b;
      case ScalarOp::kSubtract:
        return a + " - " + b;
      case ScalarOp::kMultiply:
        return a + " * " + b;
      case ScalarOp::kDivide:
        return a + " / " + b;
      case ScalarOp::kNegate:
        return "-" + a;
      case ScalarOp::kAbsolute:
        return "fabsf(" + a + ")";
      case ScalarOp::kExp:
        return "expf(" + a + ")";
      case ScalarOp::kLog:
        return "logf(" + a + ")";
      case ScalarOp::kSqrt:
        return "sqrtf(" + a + ")";
      case ScalarOp::kTanh:
        return "tanhf(" + a + ")";
      case ScalarOp::kErf:
        return "erf_of(" + a + ")";
      case ScalarOp::kGreater:
        return a + " > " + b + " ? 1.0f : 0.0f";
      case ScalarOp::kLess:
        return a + " < " + b + " ? 1.0f : 0.0f";
      case ScalarOp::kEqual:
        return a + " == " + b + " ? 1.0f : 0.0f";
      case ScalarOp::kSelect:
        return fmt::format("{} != 0.0f ? {} : {}", a, b, value(one.c));
    }
    return {};
  }

  static std::string target(const Program::Store& store) {
    return fmt::format("{}{}", store.into_input ? "in" : "out", store.place);
  }

  const Operand& operand_of(const Program::Store& store) const {
    const auto place = static_cast<std::size_t>(store.place);
    return store.into_input ? program_.inputs[place] : program_.outputs[place];
  }

  void begin_stores() {
    for (std::size_t i = 0; i < program_.stores.size(); ++i) {
      const Operand& operand = operand_of(program_.stores[i]);
      if (access(operand) == Access::kVector) {
        line("    Some<{}, {}> w{};", element_name(operand.type), width_, i);
      } else {
        line("    {}* const q{} = {} + ({});", element_name(operand.type), i,
             target(program_.stores[i]), place(operand));
      }
    }
  }

  void store_elements() {
    for (std::size_t i = 0; i < program_.stores.size(); ++i) {
      const Program::Store& store = program_.stores[i];
      const bool vector = access(operand_of(store)) == Access::kVector;
      const auto stride = operand_of(store).strides.back();
      line("      put({}, {});",
           vector ? fmt::format("w{}.at[j]", i) : fmt::format("q{}[j * {}]", i, stride),
           value(store.value));
    }
  }

  void end_stores() {
    for (std::size_t i = 0; i < program_.stores.size(); ++i) {
      const Operand& operand = operand_of(program_.stores[i]);
      if (access(operand) != Access::kVector) continue;
      line("    *(Some<{}, {}>*)({} + ({})) = w{};", element_name(operand.type), width_,
           target(program_.stores[i]), place(operand), i);
    }
  }

  // Instructions, stores and sums of a thread's elements, whose operands are loaded.
  void work() {
    begin_stores();
    line("    #pragma unroll");
    line("    for (int j = 0; j < {}; ++j) {{", width_);
    for (std::size_t i = 0; i < program_.code.size(); ++i) {
      line("      const float r{} = {};", i, text_of(program_.code[i]));
    }
    store_elements();
    for (std::size_t k = 0; k < program_.sums.size(); ++k) {
      line("      all[{}][j] += r{};", k, program_.sums[k]);
    }
    line("    }}");
    end_stores();
  }

  // All that happens to the elements of a thread.
  void body() {
    loads([](std::size_t) { return true; });
    work();
  }

  // A loop over rows, `step` apart. Operands of columns are there already; those of the next rows
  // are asked for before the first is worked on, as memory answers late.
  void loop_over_rows(const std::string& first, const std::string& last, const std::string& step) {
    const auto is_early = [&](std::size_t i) {
      return !is_of_columns(program_.inputs[i]) && access(program_.inputs[i]) == Access::kVector;
    };
    std::int64_t early = 0;
    for (std::size_t i = 0; i < program_.inputs.size(); ++i) {
      if (is_loaded(i) && is_early(i)) ++early;
    }
    const int at_once = early == 0 ? 1 : (early <= 2 ? 4 : 2);
    line("  for (long long row = {0}; row < {1}; row += {2} * {3}) {{", first, last, at_once, step);
    for (std::size_t i = 0; i < program_.inputs.size(); ++i) {
      if (!is_loaded(i) || !is_early(i)) continue;
      line("    Some<{}, {}> early{}[{}];", element_name(program_.inputs[i].type), width_, i,
           at_once);
    }
    line("    #pragma unroll");
    line("    for (int u = 0; u < {}; ++u) {{", at_once);
    line("    const long long x0 = row + u * {};\n    if (x0 >= {}) break;", step, last);
    for (std::size_t i = 0; i < program_.inputs.size(); ++i) {
      if (!is_loaded(i) || !is_early(i)) continue;
      line("    early{0}[u] = *(const Some<{1}, {2}>*)(in{0} + ({3}));", i,
           element_name(program_.inputs[i].type), width_, place(program_.inputs[i]));
    }
    line("    }}\n    #pragma unroll");
    line("    for (int u = 0; u < {}; ++u) {{", at_once);
    line("    const long long x0 = row + u * {};\n    if (x0 >= {}) break;", step, last);
    for (std::size_t i = 0; i < program_.inputs.size(); ++i) {
      if (!is_loaded(i) || is_of_columns(program_.inputs[i])) continue;
      if (is_early(i)) {
        line("    const auto& v{0} = early{0}[u];", i);
      } else {
        load(i);
      }
    }
    work();
    line("    }}\n  }}");
  }

  void elements() {
    const std::int64_t pieces = program_.elements() / width_;
    part_.blocks_x =
        std::clamp<std::int64_t>((pieces + kKernelThreads - 1) / kKernelThreads, 1, kMostBlocks);
    part_.host_blocks_x = part_.blocks_x;
    begin_function();
    line(
        "  for (long long piece = (long long)block_at.x * MUSTER_THREADS + thread_at.x; "
        "piece < {}LL; piece += (long long)grid_size.x * MUSTER_THREADS) {{",
        pieces);
    const char* const index = program_.elements() < (1LL << 31) ? "u32" : "long long";
    line("    {} rest = ({})piece * {};", index, index, width_);
    for (std::size_t d = program_.sizes.size(); d-- > 0;) {
      if (d == 0) {
        line("    const long long x0 = rest;");
      } else {
        line("    const long long x{} = rest % {}; rest /= {};", d, program_.sizes[d],
             program_.sizes[d]);
      }
    }
    body();
    line("  }}\n}}");
  }

  // Whether the operand has the same elements for every row.
  bool is_of_columns(const Operand& operand) const {
    return std::all_of(operand.strides.begin(), operand.strides.end() - 1,
                       [](std::int64_t stride) { return stride == 0; });
  }

  // Blocks with which every thread stays in its columns from row to row; 0 where that is no use.
  std::int64_t blocks_by_columns() const {
    if (program_.sizes.size() != 2) return 0;
    const bool has_columns = std::ranges::any_of(
        program_.inputs, [&](const Operand& one) { return is_of_columns(one); });
    const std::int64_t groups = inner() / width_;
    const std::int64_t unit = groups / std::gcd<std::int64_t, std::int64_t>(groups, kKernelThreads);
    const std::int64_t blocks = kBusyBlocks / unit * unit;
    const std::int64_t pieces = program_.elements() / width_;
    return has_columns && pieces >= 4 * blocks * kKernelThreads ? blocks : 0;
  }

  // Operands that belong to columns alone are loaded once by each thread.
  void elements_by_columns(std::int64_t blocks) {
    const std::int64_t groups = inner() / width_;
    part_.blocks_x = blocks;
    part_.host_blocks_x = blocks * kKernelThreads;
    begin_function();
    line("  const u32 first = block_at.x * MUSTER_THREADS + thread_at.x;");
    line("  const long long x1 = first % {} * {};", groups, width_);
    const auto of_columns = [&](std::size_t i) { return is_of_columns(program_.inputs[i]); };
    loads(of_columns);
    loop_over_rows(fmt::format("first / {}", groups), fmt::format("{}LL", program_.sizes[0]),
                   fmt::format("{}LL", blocks * kKernelThreads / groups));
    line("}}");
  }

  // Values that all elements of a row have in common.
  void find_row_values() {
    of_row_.assign(program_.code.size(), false);
    const auto is_common = [&](int i) { return i < 0 || of_row_[static_cast<std::size_t>(i)]; };
    for (std::size_t i = 0; i < program_.code.size(); ++i) {
      const Instruction& one = program_.code[i];
      if (one.op == ScalarOp::kLoad) {
        of_row_[i] = program_.inputs[static_cast<std::size_t>(one.place)].strides.back() == 0;
      } else {
        of_row_[i] = is_of_row(one) || (is_common(one.a) && is_common(one.b) && is_common(one.c));
      }
    }
  }

  // A row belongs to one warp, or to several of a block; its values stay in registers. Where
  // columns are added up, a block goes through rows one after the other.
  void rows() {
    find_row_values();
    const std::int64_t groups = inner() / width_;
    std::int64_t threads = 32;
    while (threads < kKernelThreads && groups > 4 * threads) threads *= 2;
    const std::int64_t pieces = (groups + threads - 1) / threads;
    if (pieces * width_ > kMostOfRow) throw Internal("a row of {} is too long", inner());
    const std::int64_t at_once = kKernelThreads / threads;
    const bool has_sums = !program_.sums.empty();
    const std::int64_t in_block =
        has_sums ? (program_.sizes[0] + program_.blocks - 1) / program_.blocks : at_once;
    part_.blocks_x = has_sums ? program_.blocks : (program_.sizes[0] + in_block - 1) / in_block;
    part_.host_blocks_x = part_.blocks_x;
    warps_ = threads / 32;
    begin_function();
    line("  enum {{ T = MUSTER_HOST ? 1 : {}, PIECES = MUSTER_HOST ? {} : {} }};", threads, groups,
         pieces);
    line("  enum {{ AT_ONCE = MUSTER_HOST ? 1 : {} }};", at_once);
    line("  const int lane = thread_at.x % T, group = thread_at.x / T;");
    line("  const long long first = (long long)block_at.x * {};", in_block);
    if (has_sums) {
      line("  float all[{}][PIECES * {}];", program_.sums.size(), width_);
      line("  for (int k = 0; k < {}; ++k) for (int e = 0; e < PIECES * {}; ++e) all[k][e] = 0.0f;",
           program_.sums.size(), width_);
    }
    line("  for (int i = 0; i < {}; i += AT_ONCE) {{", in_block);
    line("    const long long x0 = first + i + group;");
    line("    const bool is_row = i + group < {} && x0 < {};", in_block, program_.sizes[0]);
    row_instructions();
    row_stores();
    if (has_sums) add_rows();
    line("  }}");
    if (has_sums) row_sums();
    line("}}");
  }

  void add_rows() {
    begin_pieces();
    begin_elements();
    for (std::size_t k = 0; k < program_.sums.size(); ++k) {
      line("      all[{}][e] += {};", k, value(program_.sums[k]));
    }
    line("    }}\n    }}");
  }

  // Adds up the sums of a column's threads, one after the other.
  void row_sums() {
    line("  MUSTER_SHARED float shared[AT_ONCE][{}];", inner());
    std::size_t sum = 0;
    for (std::size_t i = 0; i < program_.partials.size(); ++i) {
      const std::size_t output = program_.outputs.size() - program_.partials.size() + i;
      for (std::int64_t k = 0; k < program_.partials[i]; ++k, ++sum) {
        line("  #pragma unroll");
        line("  for (int p = 0; p < PIECES; ++p) for (int j = 0; j < {}; ++j) {{", width_);
        line("    const int x1 = (p * T + lane) * {} + j;", width_);
        line("    if (x1 < {}) shared[group][x1] = all[{}][p * {} + j];", inner(), sum, width_);
        line("  }}\n  wait_for_block();");
        line("  for (int x1 = thread_at.x; x1 < {}; x1 += MUSTER_THREADS) {{", inner());
        line("    float total = 0.0f;");
        line("    for (int g = 0; g < AT_ONCE; ++g) total += shared[g][x1];");
        line("    out{}[({} * {}LL + x1) * {} + block_at.x].raw = total;", output, k, inner(),
             program_.blocks);
        line("  }}\n  wait_for_block();");
      }
    }
  }

  void row_instructions() {
    std::vector<std::size_t> waiting;
    for (std::size_t i = 0; i < program_.code.size(); ++i) {
      const Instruction& one = program_.code[i];
      if (is_of_row(one)) {
        row_elements(std::exchange(waiting, {}));
        join_row(i);
      } else if (one.op == ScalarOp::kLoad && of_row_[i]) {
        const auto input = static_cast<std::size_t>(one.place);
        line("    const float r{} = is_row ? get(in{}[{}]) : 0.0f;", i, input,
             place(program_.inputs[input]));
      } else if (of_row_[i]) {
        line("    const float r{} = {};", i, text_of(one));
      } else {
        line("    float r{}[PIECES * {}];", i, width_);
        waiting.push_back(i);
      }
    }
    row_elements(waiting);
  }

  // The loop over a thread's pieces of its row.
  void begin_pieces() {
    line("    #pragma unroll");
    line("    for (int p = 0; p < PIECES; ++p) {{");
    line("    const long long x1 = ((long long)p * T + lane) * {};", width_);
    line("    if (!is_row || x1 >= {}) continue;", inner());
  }

  void begin_elements() {
    line("    #pragma unroll");
    line("    for (int j = 0; j < {0}; ++j) {{\n      const int e = p * {0} + j;", width_);
  }

  void row_elements(const std::vector<std::size_t>& instructions) {
    if (instructions.empty()) return;
    begin_pieces();
    loads([&](std::size_t input) {
      return std::ranges::any_of(instructions, [&](std::size_t i) {
        const Instruction& one = program_.code[i];
        return one.op == ScalarOp::kLoad && one.place == static_cast<int>(input);
      });
    });
    begin_elements();
    for (const std::size_t i : instructions) {
      line("      r{}[e] = {};", i, text_of(program_.code[i]));
    }
    line("    }}\n    }}");
  }

  void join_row(std::size_t i) {
    const Instruction& one = program_.code[i];
    const bool is_sum = one.op == ScalarOp::kRowSum;
    line("    float r{} = {};", i, is_sum ? "0.0f" : "float_of(0xff800000u)");
    begin_pieces();
    begin_elements();
    if (is_sum) {
      line("      r{} += {};", i, value(one.a));
    } else {
      line("      r{0} = max_of(r{0}, {1});", i, value(one.a));
    }
    line("    }}\n    }}");
    line("    r{0} = {1}_of_warps(r{0}, {2});", i, is_sum ? "sum" : "max", warps_);
  }

  void row_stores() {
    bool of_elements = false;
    for (const Program::Store& store : program_.stores) {
      const Operand& operand = operand_of(store);
      if (operand.strides.back() != 0) {
        of_elements = true;
        continue;
      }
      line("    if (is_row && lane == 0) put({}[{}], {});", target(store), place(operand),
           value(store.value));
    }
    if (!of_elements) return;
    begin_pieces();
    for (std::size_t i = 0; i < program_.stores.size(); ++i) row_store(i);
    line("    }}");
  }

  void row_store(std::size_t i) {
    const Program::Store& store = program_.stores[i];
    const Operand& operand = operand_of(store);
    if (operand.strides.back() == 0) return;
    const bool vector = access(operand) == Access::kVector;
    if (vector) {
      line("    Some<{}, {}> w{};", element_name(operand.type), width_, i);
    } else {
      line("    {}* const q{} = {} + ({});", element_name(operand.type), i, target(store),
           place(operand));
    }
    begin_elements();
    line("      put({}, {});",
         vector ? fmt::format("w{}.at[j]", i)
                : fmt::format("q{}[j * {}]", i, operand.strides.back()),
         value(store.value));
    line("    }}");
    if (vector) {
      line("    *(Some<{}, {}>*)({} + ({})) = w{};", element_name(operand.type), width_,
           target(store), place(operand), i);
    }
  }

  // A block has `across` threads for columns and the others for rows.
  void column_sums() {
    const std::int64_t groups = (inner() + width_ - 1) / width_;
    std::int64_t across = 1;
    while (across < 32 && across < groups) across *= 2;
    const std::int64_t down = kKernelThreads / across;
    const auto sums = program_.sums.size();
    part_.blocks_x = (groups + across - 1) / across;
    part_.blocks_y = program_.blocks;
    part_.host_blocks_x = groups;
    const std::int64_t rows = (program_.sizes[0] + program_.blocks - 1) / program_.blocks;
    begin_function();
    line("  enum {{ ACROSS = MUSTER_HOST ? 1 : {}, DOWN = MUSTER_HOST ? 1 : {} }};", across, down);
    line("  MUSTER_SHARED float shared[{}][DOWN][ACROSS * {}];", sums, width_);
    line("  const int across = thread_at.x % ACROSS, down = thread_at.x / ACROSS;");
    line("  const long long first = (long long)block_at.y * {};", rows);
    line("  const long long last = first + {0} < {1} ? first + {0} : {1};", rows,
         program_.sizes[0]);
    line("  const long long x1 = ((long long)block_at.x * ACROSS + across) * {};", width_);
    line("  float all[{}][{}];", sums, width_);
    line("  for (int k = 0; k < {}; ++k) for (int j = 0; j < {}; ++j) all[k][j] = 0.0f;", sums,
         width_);
    line("  if (x1 < {}) {{", inner());
    const auto of_columns = [&](std::size_t i) { return is_of_columns(program_.inputs[i]); };
    loads(of_columns);
    loop_over_rows("first + down", "last", "DOWN");
    line("  }}");
    line(
        "  for (int k = 0; k < {0}; ++k) for (int j = 0; j < {1}; ++j) "
        "shared[k][down][across * {1} + j] = all[k][j];",
        sums, width_);
    line("  wait_for_block();");
    line("  for (int half = DOWN / 2; half > 0; half /= 2) {{");
    line(
        "    if (down < half) for (int k = 0; k < {0}; ++k) for (int j = 0; j < {1}; ++j) "
        "shared[k][down][across * {1} + j] += shared[k][down + half][across * {1} + j];",
        sums, width_);
    line("    wait_for_block();\n  }}");
    std::size_t sum = 0;
    for (std::size_t i = 0; i < program_.partials.size(); ++i) {
      line(
          "  if (down == 0 && x1 < {0}) for (int k = 0; k < {1}; ++k) for (int j = 0; j < {2}; "
          "++j) "
          "out{3}[(k * {0}LL + x1 + j) * {4} + block_at.y].raw = "
          "shared[{5} + k][0][across * {2} + j];",
          inner(), program_.partials[i], width_,
          program_.outputs.size() - program_.partials.size() + i, program_.blocks, sum);
      sum += static_cast<std::size_t>(program_.partials[i]);
    }
    line("}}");
  }

  // A warp for each column: its lanes add blocks up, the first does the rest.
  void columns() {
    constexpr int kWarps = kKernelThreads / 32;
    part_.blocks_x = (inner() + kWarps - 1) / kWarps;
    part_.host_blocks_x = part_.blocks_x;
    begin_function();
    line("  const int lane = thread_at.x % MUSTER_LANES;");
    line(
        "  for (int warp = thread_at.x / MUSTER_LANES; warp < {}; "
        "warp += MUSTER_THREADS / MUSTER_LANES) {{",
        kWarps);
    line("    const long long x0 = (long long)block_at.x * {} + warp;", kWarps);
    line("    if (x0 >= {}) return;", inner());
    for (std::int64_t k = 0; k < program_.sum_count; ++k) {
      line("    float sum{} = 0.0f;", k);
      line(
          "    for (int block = lane; block < {0}; block += MUSTER_LANES) "
          "sum{1} += in0[({1} * {2}LL + x0) * {0} + block].raw;",
          program_.blocks, k, inner());
      line("    sum{0} = sum_of_warp(sum{0});", k);
    }
    line("    if (lane != 0) continue;");
    body();
    line("  }}\n}}");
  }

  const Program& program_;
  std::string name_;
  KernelPart part_{};
  std::string text_{};
  std::int64_t width_ = 1;
  /// By instruction of kRows, whether it has one value for all of a row.
  std::vector<bool> of_row_{};
  std::int64_t warps_ = 1;
};

}  // namespace

KernelPart part_of(const Program& program, const std::string& name) {
  return PartWriter(program, name).write();
}

std::vector<std::string> parameter_types(const Program& program) {
  std::vector<std::string> types;
  for (std::size_t i = 0; i < program.inputs.size(); ++i) {
    const bool changes = std::ranges::any_of(program.stores, [&](const Program::Store& store) {
      return store.into_input && store.place == static_cast<int>(i);
    });
    types.push_back(
        fmt::format("{}{}*", changes ? "" : "const ", element_name(program.inputs[i].type)));
  }
  for (const Operand& output : program.outputs) {
    types.push_back(fmt::format("{}*", element_name(output.type)));
  }
  return types;
}

}  // namespace muster::compiler
