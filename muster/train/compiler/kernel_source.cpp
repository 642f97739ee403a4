#include "muster/train/compiler/kernel_source.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "muster/base/error.h"

namespace muster::compiler {
namespace {

constexpr int kThreads = 256;

// Types without their headers, which the run-time compiler has not.
constexpr const char* kPrelude = R"(
typedef unsigned short u16;
typedef unsigned int u32;
#ifdef MUSTER_ON_HOST
#include <math.h>
#include <string.h>
#define MUSTER_KERNEL extern "C" void
#define MUSTER_SHARED static
#define MUSTER_INLINE static inline
struct Place { long x, y; };
static Place block_at, grid_size;
static const Place thread_at = {0, 0};
#define MUSTER_THREADS 1
static void wait_for_block() {}
static float float_of(u32 bits) { float value; memcpy(&value, &bits, 4); return value; }
static u32 bits_of(float value) { u32 bits; memcpy(&bits, &value, 4); return bits; }
static u16 round_bf16(float x) {
  if (x != x) return 0x7fc0;
  u32 bits = bits_of(x);
  return (u16)((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16);
}
static float float_of_half(u16 h) { _Float16 value; memcpy(&value, &h, 2); return (float)value; }
static u16 half_of(float x) { _Float16 value = (_Float16)x; u16 h; memcpy(&h, &value, 2); return h; }
static float sum_of_warp(float x) { return x; }
#define MUSTER_LANES 1
#else
#define MUSTER_KERNEL extern "C" __global__ void __launch_bounds__(MUSTER_THREADS)
#define MUSTER_SHARED __shared__
#define MUSTER_INLINE static __device__ __forceinline__
#define block_at blockIdx
#define grid_size gridDim
#define thread_at threadIdx
#define wait_for_block __syncthreads
#define float_of __uint_as_float
#define bits_of __float_as_uint
MUSTER_INLINE u16 round_bf16(float x) { u16 r; asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(r) : "f"(x)); return r; }
MUSTER_INLINE float float_of_half(u16 h) { float r; asm("cvt.f32.f16 %0, %1;" : "=f"(r) : "h"(h)); return r; }
MUSTER_INLINE u16 half_of(float x) { u16 r; asm("cvt.rn.f16.f32 %0, %1;" : "=h"(r) : "f"(x)); return r; }
// Always the same tree.
MUSTER_INLINE float sum_of_warp(float x) {
  for (int step = 16; step > 0; step /= 2) x += __shfl_xor_sync(0xffffffffu, x, step);
  return x;
}
#define MUSTER_LANES 32
#endif
struct f32 { float raw; };
struct bf16 { u16 raw; };
struct f16 { u16 raw; };
struct flag { unsigned char raw; };
MUSTER_INLINE float get(f32 x) { return x.raw; }
MUSTER_INLINE float get(bf16 x) { return float_of((u32)x.raw << 16); }
MUSTER_INLINE float get(f16 x) { return float_of_half(x.raw); }
MUSTER_INLINE float get(flag x) { return x.raw ? 1.0f : 0.0f; }
MUSTER_INLINE void put(f32& to, float x) { to.raw = x; }
MUSTER_INLINE void put(bf16& to, float x) { to.raw = round_bf16(x); }
MUSTER_INLINE void put(f16& to, float x) { to.raw = half_of(x); }
MUSTER_INLINE void put(flag& to, float x) { to.raw = x != 0.0f; }
template <typename T, int N> struct alignas(N * sizeof(T) > 16 ? 16 : N * sizeof(T)) Some { T at[N]; };
)";

/// How an operand's elements that one thread takes at a time lie.
enum class Access { kVector, kScalar, kEach };

class Writer {
 public:
  explicit Writer(const Program& program) : program_(program) {}

  KernelSource write() {
    choose_width();
    switch (program_.kind) {
      case Program::Kind::kElements:
        elements();
        break;
      case Program::Kind::kColumnSums:
        column_sums();
        break;
      case Program::Kind::kColumns:
        columns();
        break;
    }
    source_.text = kernel_prelude(source_.threads) + text_ + runner();
    return std::move(source_);
  }

 private:
  template <typename... Args>
  void line(fmt::format_string<Args...> format, Args&&... args) {
    text_ += fmt::format(format, std::forward<Args>(args)...) + "\n";
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
    // Small work is spread over more threads.
    if (all && program_.elements() >= 8 * 1024) width_ = 8;
  }

  Access access(const Operand& operand) const {
    if (operand.strides.back() == 0) return Access::kScalar;
    return operand.strides.back() == 1 && operand.aligned && width_ > 1 ? Access::kVector
                                                                        : Access::kEach;
  }

  std::string parameters() const {
    std::vector<std::string> all;
    for (std::size_t i = 0; i < program_.inputs.size(); ++i) {
      const bool changes = std::ranges::any_of(program_.stores, [&](const Program::Store& store) {
        return store.into_input && store.place == static_cast<int>(i);
      });
      all.push_back(fmt::format("{}{}* in{}", changes ? "" : "const ",
                                element_name(program_.inputs[i].type), i));
    }
    for (std::size_t i = 0; i < program_.outputs.size(); ++i) {
      all.push_back(fmt::format("{}* out{}", element_name(program_.outputs[i].type), i));
    }
    return fmt::format("{}", fmt::join(all, ", "));
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

  void loads() {
    for (std::size_t i = 0; i < program_.inputs.size(); ++i) {
      if (!is_loaded(i)) continue;
      const Operand& operand = program_.inputs[i];
      if (access(operand) == Access::kVector) {
        line("    const Some<{0}, {1}> v{2} = *(const Some<{0}, {1}>*)(in{2} + ({3}));",
             element_name(operand.type), width_, i, place(operand));
      } else {
        line("    const {}* const p{} = in{} + ({});", element_name(operand.type), i, i,
             place(operand));
      }
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

  std::string text_of(const Instruction& one) const {
    const auto a = fmt::format("r{}", one.a);
    const auto b = fmt::format("r{}", one.b);
    switch (one.op) {
      // Exact, and no literal has a value that C++ cannot write.
      case ScalarOp::kConstant:
        return fmt::format("float_of(0x{:08x}u)", bits(one.constant));
      case ScalarOp::kLoad:
        return loaded(one.place);
      case ScalarOp::kSum:
        return fmt::format("sum{}", one.place);
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
        return "erff(" + a + ")";
      case ScalarOp::kGreater:
        return a + " > " + b + " ? 1.0f : 0.0f";
      case ScalarOp::kLess:
        return a + " < " + b + " ? 1.0f : 0.0f";
      case ScalarOp::kEqual:
        return a + " == " + b + " ? 1.0f : 0.0f";
      case ScalarOp::kSelect:
        return fmt::format("{} != 0.0f ? {} : r{}", a, b, one.c);
    }
    return {};
  }

  static std::uint32_t bits(float value) { return __builtin_bit_cast(std::uint32_t, value); }

  std::string target(const Program::Store& store) const {
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

  void end_stores() {
    for (std::size_t i = 0; i < program_.stores.size(); ++i) {
      const Operand& operand = operand_of(program_.stores[i]);
      if (access(operand) != Access::kVector) continue;
      line("    *(Some<{}, {}>*)({} + ({})) = w{};", element_name(operand.type), width_,
           target(program_.stores[i]), place(operand), i);
    }
  }

  void instructions() {
    for (std::size_t i = 0; i < program_.code.size(); ++i) {
      line("      const float r{} = {};", i, text_of(program_.code[i]));
    }
  }

  // All that happens to the elements of a thread, and, of sums, to what it has added up.
  void body() {
    loads();
    begin_stores();
    line("    #pragma unroll");
    line("    for (int j = 0; j < {}; ++j) {{", width_);
    instructions();
    for (std::size_t i = 0; i < program_.stores.size(); ++i) {
      const Program::Store& store = program_.stores[i];
      const bool vector = access(operand_of(store)) == Access::kVector;
      const auto stride = operand_of(store).strides.back();
      line("      put({}, r{});",
           vector ? fmt::format("w{}.at[j]", i) : fmt::format("q{}[j * {}]", i, stride),
           store.value);
    }
    for (std::size_t k = 0; k < program_.sums.size(); ++k) {
      line("      all[{}][j] += r{};", k, program_.sums[k]);
    }
    line("    }}");
    end_stores();
  }

  void elements() {
    const std::int64_t pieces = program_.elements() / width_;
    source_.threads = kThreads;
    source_.grid_x = std::clamp<std::int64_t>((pieces + kThreads - 1) / kThreads, 1, 132 * 32);
    line("MUSTER_KERNEL muster_kernel({}) {{", parameters());
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

  // A block has `across` threads for columns and the others for rows.
  void column_sums() {
    const std::int64_t groups = (inner() + width_ - 1) / width_;
    std::int64_t across = 1;
    while (across < 32 && across < groups) across *= 2;
    const std::int64_t down = kThreads / across;
    const auto sums = program_.sums.size();
    const auto last = program_.outputs.size() - 1;
    source_.threads = kThreads;
    source_.grid_x = (groups + across - 1) / across;
    source_.grid_y = program_.blocks;
    const std::int64_t rows = (program_.sizes[0] + program_.blocks - 1) / program_.blocks;
    line(
        "#ifdef MUSTER_ON_HOST\n#define ACROSS 1\n#define DOWN 1\n#else\n#define ACROSS {}\n"
        "#define DOWN {}\n#endif",
        across, down);
    line("MUSTER_KERNEL muster_kernel({}) {{", parameters());
    line("  MUSTER_SHARED float shared[{}][DOWN][ACROSS * {}];", sums, width_);
    line("  const int across = thread_at.x % ACROSS, down = thread_at.x / ACROSS;");
    line("  const long long first = (long long)block_at.y * {};", rows);
    line("  const long long last = first + {0} < {1} ? first + {0} : {1};", rows,
         program_.sizes[0]);
    line("  const long long x1 = ((long long)block_at.x * ACROSS + across) * {};", width_);
    line("  float all[{}][{}];", sums, width_);
    line("  for (int k = 0; k < {}; ++k) for (int j = 0; j < {}; ++j) all[k][j] = 0.0f;", sums,
         width_);
    line("  if (x1 < {}) for (long long x0 = first + down; x0 < last; x0 += DOWN) {{", inner());
    body();
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
    line(
        "  if (down == 0 && x1 < {}) for (int k = 0; k < {}; ++k) for (int j = 0; j < {}; ++j) "
        "out{}[((long long)block_at.y * {} + k) * {} + x1 + j].raw = shared[k][0][across * {} + "
        "j];",
        inner(), sums, width_, last, sums, inner(), width_);
    line("}}");
  }

  // A warp for each column: its lanes add blocks up, the first does the rest.
  void columns() {
    source_.threads = kThreads;
    source_.grid_x = (inner() + kThreads / 32 - 1) / (kThreads / 32);
    line("#ifdef MUSTER_ON_HOST\n#define WARPS {}\n#else\n#define WARPS 1\n#endif", kThreads / 32);
    line("MUSTER_KERNEL muster_kernel({}) {{", parameters());
    line("  const int lane = thread_at.x % MUSTER_LANES;");
    line(
        "  for (int warp = thread_at.x / MUSTER_LANES; warp < {}; "
        "warp += MUSTER_THREADS / MUSTER_LANES) {{",
        kThreads / 32);
    line("    const long long x0 = (long long)block_at.x * {} + warp;", kThreads / 32);
    line("    if (x0 >= {}) return;", inner());
    for (std::int64_t k = 0; k < program_.sum_count; ++k) {
      line("    float sum{} = 0.0f;", k);
      line(
          "    for (int block = lane; block < {}; block += MUSTER_LANES) "
          "sum{} += in0[(block * {} + {}) * {}LL + x0].raw;",
          program_.blocks, k, program_.sum_count, k, inner());
      line("    sum{0} = sum_of_warp(sum{0});", k);
    }
    line("    if (lane != 0) continue;");
    body();
    line("  }}\n}}");
  }

  std::string runner() const {
    std::vector<std::string> arguments;
    for (std::size_t i = 0; i < program_.inputs.size(); ++i) {
      arguments.push_back(
          fmt::format("({}*)pointers[{}]", element_name(program_.inputs[i].type), i));
    }
    for (std::size_t i = 0; i < program_.outputs.size(); ++i) {
      arguments.push_back(fmt::format("({}*)pointers[{}]", element_name(program_.outputs[i].type),
                                      program_.inputs.size() + i));
    }
    // One thread a block takes the columns of all that a block of threads has.
    const bool by_columns = program_.kind == Program::Kind::kColumnSums;
    return fmt::format(
        "#ifdef MUSTER_ON_HOST\nextern \"C\" void muster_run(void** pointers, long grid_x, long "
        "grid_y) {{\n  {}\n  grid_size.x = grid_x;\n  grid_size.y = grid_y;\n"
        "  for (block_at.y = 0; block_at.y < grid_y; ++block_at.y)\n"
        "    for (block_at.x = 0; block_at.x < grid_x; ++block_at.x) "
        "muster_kernel({});\n}}\n#endif\n",
        by_columns ? fmt::format("grid_x = {};", (inner() + width_ - 1) / width_) : "",
        fmt::join(arguments, ", "));
  }

  const Program& program_;
  KernelSource source_{};
  std::string text_{};
  std::int64_t width_ = 1;
};

}  // namespace

const char* element_name(at::ScalarType type) {
  switch (type) {
    case at::kFloat:
      return "f32";
    case at::kBFloat16:
      return "bf16";
    case at::kHalf:
      return "f16";
    case at::kBool:
      return "flag";
    default:
      throw Internal("a program has no values of type {}", c10::toString(type));
  }
}

std::string kernel_prelude(std::int64_t threads) {
  return fmt::format("#ifndef MUSTER_ON_HOST\n#define MUSTER_THREADS {}\n#endif\n{}", threads,
                     kPrelude);
}

KernelSource source_of(const Program& program) { return Writer(program).write(); }

}  // namespace muster::compiler
