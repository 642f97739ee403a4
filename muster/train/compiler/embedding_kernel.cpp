#include "muster/train/compiler/embedding_kernel.h"

#include <ATen/ops/from_blob.h>
#include <fmt/format.h>

#include <utility>
#include <vector>

#include "muster/train/compiler/device_kernel.h"

namespace muster::compiler {
namespace {

constexpr std::int64_t kEmbeddingThreads = 256;
constexpr std::int64_t kWarpsOfBlock = kEmbeddingThreads / 32;

// A warp takes a word and some columns. The first of several equal words adds all of them up.
constexpr const char* kEmbedding = R"(
#if MUSTER_HOST
static u32 votes_of(bool vote) { return vote; }
static int first_vote(u32 votes) { return 0; }
#else
MUSTER_INLINE u32 votes_of(bool vote) { return __ballot_sync(0xffffffffu, vote); }
MUSTER_INLINE int first_vote(u32 votes) { return __ffs(votes) - 1; }
#endif
MUSTER_KERNEL muster_kernel(const From* in0, const Word* in1, To* out0) {
  const int lane = thread_at.x % MUSTER_LANES;
  const long long own = (long long)block_index.x * (MUSTER_THREADS / MUSTER_LANES)
      + thread_at.x / MUSTER_LANES;
  if (own >= COUNT) return;
  const Word word = in1[own];
  if (word == PADDING) return;
  for (long long first = 0; first < own; first += AT_ONCE * MUSTER_LANES) {
    bool is_there = false;
    #pragma unroll
    for (int k = 0; k < AT_ONCE; ++k) {
      const long long other = first + k * MUSTER_LANES + lane;
      is_there = is_there || (other < own && in1[other] == word);
    }
    if (votes_of(is_there) != 0u) return;
  }
  const long long column = (long long)block_index.y * PART + lane * VECTOR;
  float sum[PIECES][VECTOR];
  for (int p = 0; p < PIECES; ++p) for (int j = 0; j < VECTOR; ++j) sum[p][j] = 0.0f;
  for (long long start = own - own % MUSTER_LANES; start < COUNT; start += AT_ONCE * MUSTER_LANES) {
    bool is_there[AT_ONCE];
    bool any = false;
    #pragma unroll
    for (int k = 0; k < AT_ONCE; ++k) {
      const long long other = start + k * MUSTER_LANES + lane;
      is_there[k] = other >= own && other < COUNT && in1[other] == word;
      any = any || is_there[k];
    }
    if (votes_of(any) == 0u) continue;
    #pragma unroll
    for (int k = 0; k < AT_ONCE; ++k) {
    const long long first = start + k * MUSTER_LANES;
    u32 votes = votes_of(is_there[k]);
    while (votes != 0u) {
      const long long row = first + first_vote(votes);
      votes &= votes - 1u;
      const From* const from = in0 + (row / INNER * OUTER_STRIDE + row % INNER * INNER_STRIDE);
      #pragma unroll
      for (int p = 0; p < PIECES; ++p) {
        const long long at = column + (long long)p * MUSTER_LANES * VECTOR;
        if (at >= COLUMNS) continue;
        const Some<From, VECTOR> some = *(const Some<From, VECTOR>*)(from + at);
        #pragma unroll
        for (int j = 0; j < VECTOR; ++j) sum[p][j] += get(some.at[j]);
      }
    }
    }
  }
  #pragma unroll
  for (int p = 0; p < PIECES; ++p) {
    const long long at = column + (long long)p * MUSTER_LANES * VECTOR;
    if (at >= COLUMNS) continue;
    Some<To, VECTOR> made;
    #pragma unroll
    for (int j = 0; j < VECTOR; ++j) put(made.at[j], sum[p][j]);
    *(Some<To, VECTOR>*)(out0 + (long long)word * COLUMNS + at) = made;
  }
}
#ifdef MUSTER_ON_HOST
extern "C" void muster_run(void** pointers) {
  for (block_index.y = 0; block_index.y < HOST_PARTS; ++block_index.y)
    for (block_index.x = 0; block_index.x < COUNT; ++block_index.x)
      muster_kernel((From*)pointers[0], (Word*)pointers[1], (To*)pointers[2]);
}
#endif
)";

template <typename Word>
void add_rows(const EmbeddingGradient& of, const at::Tensor& from, const Word* words,
              const at::Tensor& to) {
  std::vector<float> sums(static_cast<std::size_t>(to.numel()), 0.0F);
  const at::Tensor rows = from.to(at::kFloat).contiguous();
  for (std::int64_t i = 0; i < of.outer * of.inner; ++i) {
    if (words[i] == of.padding) continue;
    for (std::int64_t c = 0; c < of.columns; ++c) {
      sums[static_cast<std::size_t>(words[i] * of.columns + c)] +=
          rows.data_ptr<float>()[i * of.columns + c];
    }
  }
  to.copy_(at::from_blob(sums.data(), to.sizes(), at::TensorOptions(at::kFloat)));
}

}  // namespace

struct EmbeddingKernel::OnDevice {
  DeviceKernel kernel;
};

EmbeddingKernel::EmbeddingKernel(EmbeddingGradient gradient) : gradient_(gradient) {}
EmbeddingKernel::~EmbeddingKernel() = default;

std::string EmbeddingKernel::name() const {
  return fmt::format("embedding_backward({} words)", gradient_.outer * gradient_.inner);
}

std::optional<KernelSource> EmbeddingKernel::source() const {
  const EmbeddingGradient& of = gradient_;
  const bool wide = of.columns % 4 == 0 && of.outer_stride % 4 == 0 && of.inner_stride % 4 == 0;
  const std::int64_t vector = wide ? 4 : 1;
  constexpr std::int64_t kPieces = 4;
  const std::int64_t part = 32 * vector * kPieces;
  const std::int64_t count = of.outer * of.inner;
  std::string text = kernel_prelude(kEmbeddingThreads);
  text += fmt::format("typedef {} From;\ntypedef {} To;\ntypedef {} Word;\n", element_name(of.from),
                      element_name(of.to), of.words == at::kLong ? "long long" : "int");
  text += fmt::format(
      "enum {{ AT_ONCE = 8, VECTOR = {}, PIECES = {}, PART = MUSTER_HOST ? PIECES * VECTOR : {}, "
      "COUNT = {}, "
      "HOST_PARTS = {} }};\n"
      "#define COLUMNS {}LL\n#define INNER {}LL\n#define OUTER_STRIDE {}LL\n"
      "#define INNER_STRIDE {}LL\n#define PADDING ({}LL)\n",
      vector, kPieces, part, count, (of.columns + kPieces * vector - 1) / (kPieces * vector),
      of.columns, of.inner, of.outer_stride, of.inner_stride, of.padding);
  return KernelSource{.text = text + kEmbedding,
                      .grid_x = (count + kWarpsOfBlock - 1) / kWarpsOfBlock,
                      .grid_y = (of.columns + part - 1) / part,
                      .threads = kEmbeddingThreads};
}

void EmbeddingKernel::run(std::span<const at::Tensor> inputs,
                          std::span<const at::Tensor> results) const {
  const at::Tensor table = results.empty() ? inputs[2] : results[0];
  if (!table.is_cpu()) {
    if (!on_device_) on_device_ = std::make_shared<OnDevice>(OnDevice{device_kernel(*source())});
    table.zero_();
    const at::Tensor tables[] = {table};
    return on_device_->kernel.launch(inputs.first(2), tables);
  }
  if (gradient_.words == at::kLong) {
    add_rows(gradient_, inputs[0], inputs[1].data_ptr<std::int64_t>(), table);
  } else {
    add_rows(gradient_, inputs[0], inputs[1].data_ptr<std::int32_t>(), table);
  }
}

}  // namespace muster::compiler
