#include "muster/nn/kernels/inference_convolution.h"

#include <ATen/Parallel.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <torch/types.h>
#include <unistd.h>

#include <new>
#include <ostream>

#include "muster/base/error.h"

namespace muster::kernels {
namespace {

struct InferenceCase {
  std::int64_t batch, height, width, channels, outputs, kernel_height, kernel_width;
  InferenceOptions options;
};

std::ostream& operator<<(std::ostream& out, const InferenceCase& c) {
  return out << c.batch << "x" << c.height << "x" << c.width << "x" << c.channels << " to "
             << c.outputs << ", kernel " << c.kernel_height << "x" << c.kernel_width << ", stride "
             << c.options.stride[0] << "x" << c.options.stride[1];
}

// Layers of networks, then edges: outputs that fill no vector, padding on one side alone, kernels
// whose rows are more than a slice, images of several blocks, matrices.
const std::vector<InferenceCase>& inference_cases() {
  static const std::vector<InferenceCase> cases{{2, 28, 28, 1, 32, 3, 3, {{1, 1}, {1, 1}, {1, 1}}},
                                                {3, 32, 32, 16, 16, 3, 3, {{1, 1}, {1, 1}, {1, 1}}},
                                                {2, 16, 16, 32, 64, 3, 3, {{2, 2}, {0, 0}, {1, 1}}},
                                                {2, 8, 8, 64, 64, 3, 3, {{1, 1}, {1, 1}, {1, 1}}},
                                                {2, 13, 9, 3, 5, 5, 3, {{2, 1}, {2, 0}, {1, 2}}},
                                                {1, 11, 12, 3, 17, 7, 7, {{3, 3}, {1, 3}, {3, 1}}},
                                                {1, 5, 70, 200, 33, 2, 3, {{1, 2}, {0, 1}, {1, 0}}},
                                                {2, 6, 5, 4, 7, 2, 3, {}},
                                                {1, 1, 1, 1, 1, 3, 3, {{1, 1}, {1, 1}, {1, 1}}},
                                                {1, 1, 1, 3136, 100, 1, 1, {}},
                                                {1, 1, 33, 700, 10, 1, 1, {}}};
  return cases;
}

struct InferenceTensors {
  explicit InferenceTensors(const InferenceCase& c)
      : images(torch::randn({c.batch, c.height, c.width, c.channels})),
        filter(torch::randn({c.kernel_height, c.kernel_width, c.channels, c.outputs})),
        bias(torch::randn({c.outputs})) {}
  at::Tensor images, filter, bias;
};

at::Tensor by_libtorch(const InferenceTensors& t, const InferenceOptions& options) {
  const auto padded = at::constant_pad_nd(
      t.images.to(torch::kDouble).permute({0, 3, 1, 2}),
      {options.before[1], options.after[1], options.before[0], options.after[0]}, 0);
  return at::conv2d(padded, t.filter.to(torch::kDouble).permute({3, 2, 0, 1}),
                    t.bias.to(torch::kDouble), options.stride)
      .permute({0, 2, 3, 1});
}

bool is_near(const at::Tensor& ours, const at::Tensor& theirs) {
  const double scale = std::max(theirs.abs().max().item<double>(), 1.0);
  return ours.sizes() == theirs.sizes() &&
         (ours.to(torch::kDouble) - theirs).abs().max().item<double>() < 1e-5 * scale;
}

TEST(InferenceConvolution, GivesWhatLibtorchDoesInDoublePrecision) {
  torch::manual_seed(1);
  for (const auto& c : inference_cases()) {
    const InferenceTensors t(c);
    const auto wanted = by_libtorch(t, c.options);
    const InferenceConvolution layer(t.filter, t.bias);
    EXPECT_TRUE(is_near(layer.run(t.images, c.options, {}), wanted)) << c;

    auto options = c.options;
    options.relu = true;
    EXPECT_TRUE(is_near(layer.run(t.images, options, {}), wanted.relu())) << c;
    const auto addend = torch::randn(wanted.sizes());
    EXPECT_TRUE(is_near(layer.run(t.images, c.options, addend), wanted + addend)) << c;
    EXPECT_TRUE(is_near(layer.run(t.images, options, addend), (wanted + addend).relu())) << c;
  }
}

TEST(InferenceConvolution, GivesAnImageTheSameBitsInAnyBatchAndWithAnyThreads) {
  const int threads = at::get_num_threads();
  for (const auto& c : inference_cases()) {
    const InferenceTensors t(c);
    const InferenceConvolution layer(t.filter, t.bias);
    at::set_num_threads(1);
    const auto alone = layer.run(t.images.slice(0, 0, 1), c.options, {});
    at::set_num_threads(3);
    const auto all = layer.run(at::cat({t.images, t.images}), c.options, {});
    EXPECT_TRUE(all.slice(0, 0, 1).equal(alone)) << c;
    EXPECT_TRUE(all.slice(0, c.batch, c.batch + 1).equal(alone)) << c;
  }
  at::set_num_threads(threads);
}

TEST(InferenceConvolution, GivesARowOfAMatrixTheSameBitsAmongAnyRows) {
  for (const std::int64_t channels : {1, 66, 192, 193, 400, 3136}) {
    for (const std::int64_t outputs : {1, 16, 34, 48, 100, 128, 300}) {
      const auto rows = torch::randn({1, 40, 1, channels});
      const auto addend = torch::randn({1, 40, 1, outputs});
      const InferenceConvolution layer(torch::randn({1, 1, channels, outputs}),
                                       torch::randn({outputs}));
      const auto all = layer.run(rows, {.relu = true}, addend);
      for (const std::int64_t count : {1, 2, 5, 7, 8, 9, 17}) {
        const auto some = layer.run(rows.slice(1, 0, count).contiguous(), {.relu = true},
                                    addend.slice(1, 0, count).contiguous());
        EXPECT_TRUE(some.equal(all.slice(1, 0, count)))
            << count << "x" << channels << "x" << outputs;
        auto product = torch::empty({1, count, 1, outputs});
        layer.multiply(rows.data_ptr<float>(), count, /*relu=*/true, addend.data_ptr<float>(),
                       product.data_ptr<float>());
        EXPECT_TRUE(product.equal(some)) << count << "x" << channels << "x" << outputs;
      }
    }
  }
}

// Floats that end where the next page may not be read.
class GuardedFloats {
 public:
  explicit GuardedFloats(std::size_t count) : count_(count) {
    const auto page = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
    const std::size_t bytes = (count * sizeof(float) + page - 1) / page * page;
    size_ = bytes + page;
    memory_ = static_cast<char*>(
        ::mmap(nullptr, size_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    if (memory_ == MAP_FAILED) throw std::bad_alloc();
    end_ = memory_ + bytes;
    if (::mprotect(end_, page, PROT_NONE) != 0) throw std::bad_alloc();
  }
  ~GuardedFloats() { ::munmap(memory_, size_); }
  GuardedFloats(const GuardedFloats&) = delete;
  GuardedFloats& operator=(const GuardedFloats&) = delete;

  at::Tensor tensor(at::IntArrayRef sizes) {
    return torch::from_blob(end_ - count_ * sizeof(float), sizes);
  }

 private:
  std::size_t count_;
  std::size_t size_ = 0;
  char* memory_ = nullptr;
  char* end_ = nullptr;
};

TEST(InferenceConvolution, ReadsNothingBehindTheImages) {
  // The last block of rows is shorter than the others, and its last tile is not full.
  for (const std::int64_t rows : {1, 7, 41, 400, 401}) {
    GuardedFloats memory(static_cast<std::size_t>(rows * 400));
    at::Tensor images = memory.tensor({1, rows, 1, 400});
    images.fill_(1);
    const InferenceConvolution layer(torch::ones({1, 1, 400, 40}), {});
    EXPECT_TRUE(layer.run(images, {}, {}).eq(400).all().item<bool>()) << rows;
  }
}

TEST(InferenceConvolution, KeepsNaN) {
  auto images = torch::zeros({1, 2, 2, 16});
  images[0][1][1][3] = std::numeric_limits<float>::quiet_NaN();
  const InferenceConvolution layer(torch::ones({1, 1, 16, 16}), {});
  const auto out = layer.run(images, {.relu = true}, {});
  EXPECT_TRUE(out[0][1][1].isnan().all().item<bool>());
  EXPECT_TRUE(out[0][0].eq(0).all().item<bool>());
}

TEST(InferenceConvolution, GivesNothingWhereTheFilterIsLargerThanTheImage) {
  const InferenceConvolution layer(torch::ones({3, 3, 2, 4}), {});
  EXPECT_EQ(layer.run(torch::ones({2, 2, 5, 2}), {}, {}).sizes(), (at::IntArrayRef{2, 0, 3, 4}));
  EXPECT_EQ(layer.run(torch::ones({0, 5, 5, 2}), {}, {}).sizes(), (at::IntArrayRef{0, 3, 3, 4}));
}

TEST(InferenceConvolution, RefusesAFilterOfNoWeights) {
  EXPECT_THROW(InferenceConvolution(torch::ones({3, 3, 0, 4}), {}), InvalidArgument);
}

}  // namespace
}  // namespace muster::kernels
