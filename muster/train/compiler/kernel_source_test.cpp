#include "muster/train/compiler/kernel_source.h"

#include <dlfcn.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <torch/torch.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "muster/train/compiler/fused_kernel.h"
#include "muster/train/compiler/interpreter.h"
#include "muster/train/compiler/passes.h"
#include "muster/train/compiler/pool_kernel.h"
#include "muster/train/compiler/recorder.h"

namespace muster::compiler {
namespace {

using Tensors = std::vector<at::Tensor>;
using RunKernel = void (*)(void** pointers);

/// A generated kernel, compiled for the CPU.
class HostKernel {
 public:
  explicit HostKernel(const KernelSource& source) {
    static int number = 0;
    const std::string name = (std::filesystem::temp_directory_path() /
                              fmt::format("muster_kernel_{}_{}", ::getpid(), number++))
                                 .string();
    std::ofstream(name + ".cpp") << source.text;
    const std::string command = fmt::format(
        "{} -std=c++17 -O0 -w -ffp-contract=off -fPIC -shared -DMUSTER_ON_HOST {}.cpp -o {}.so",
        MUSTER_COMPILER, name, name);
    EXPECT_EQ(std::system(command.c_str()), 0) << source.text;
    library_ = dlopen((name + ".so").c_str(), RTLD_NOW | RTLD_LOCAL);
    std::filesystem::remove(name + ".cpp");
    std::filesystem::remove(name + ".so");
  }
  ~HostKernel() {
    if (library_ != nullptr) dlclose(library_);
  }
  HostKernel(const HostKernel&) = delete;

  void run(const Tensors& inputs, const Tensors& outputs) const {
    const auto function = reinterpret_cast<RunKernel>(dlsym(library_, "muster_run"));
    ASSERT_NE(function, nullptr);
    std::vector<void*> pointers;
    for (const at::Tensor& one : inputs) pointers.push_back(one.data_ptr());
    for (const at::Tensor& one : outputs) pointers.push_back(one.data_ptr());
    function(pointers.data());
  }

 private:
  void* library_ = nullptr;
};

at::Tensor make(const Geometry& geometry) {
  return at::empty_strided(geometry.sizes, geometry.strides, geometry.type);
}

at::Tensor make_random(const Geometry& geometry) {
  std::int64_t last = 0;
  for (std::size_t d = 0; d < geometry.sizes.size(); ++d) {
    last += (geometry.sizes[d] - 1) * geometry.strides[d];
  }
  if (geometry.type == at::kLong) {
    return at::arange(last + 1).remainder(9).as_strided(geometry.sizes, geometry.strides);
  }
  const auto memory = at::rand({last + 1});
  const auto typed = geometry.type == at::kBool ? memory.gt(0.5) : memory.to(geometry.type);
  return typed.as_strided(geometry.sizes, geometry.strides);
}

// With memory of its own, laid out alike.
at::Tensor copy_of(const at::Tensor& tensor) {
  return tensor
      .as_strided({static_cast<std::int64_t>(tensor.storage().nbytes() / tensor.element_size())},
                  {1}, 0)
      .clone()
      .as_strided(tensor.sizes(), tensor.strides());
}

// Every program of a step, generated and compiled, makes what evaluate() makes.
int expect_kernels_as_programs(const Step& step, const Tensors& inputs, bool groups = false) {
  Recording recording = record(step, inputs);
  EXPECT_EQ(recording.obstacle, "");
  pad_channels(recording.graph, /*everywhere=*/true);
  rewrite(recording.graph, {.fuses = true, .groups = groups});
  int programs = 0;
  for (const Node& node : recording.graph.nodes) {
    const auto source = node.kernel ? node.kernel->source() : std::nullopt;
    if (!source) continue;
    SCOPED_TRACE(node.name());
    ++programs;
    // That of embeddings is given memory that was zeroed.
    const bool zeroes = node.name().starts_with("embedding");
    Tensors read, read_by_kernel, wanted, made;
    for (const ValueId value : values_read(node)) {
      read.push_back(make_random(recording.graph.geometry(value)));
      read_by_kernel.push_back(copy_of(read.back()));
    }
    for (const ValueId value : values_made(node)) {
      wanted.push_back(make(recording.graph.geometry(value)));
      made.push_back(make(recording.graph.geometry(value)).fill_(zeroes ? 0 : 7));
    }
    node.kernel->run(read, wanted);
    HostKernel(*source).run(read_by_kernel, made);
    for (std::size_t i = 0; i < made.size(); ++i) {
      EXPECT_TRUE(at::allclose(made[i].to(at::kFloat), wanted[i].to(at::kFloat), 1e-5, 1e-5)) << i;
    }
    for (std::size_t i = 0; i < read.size(); ++i) {
      EXPECT_TRUE(
          at::allclose(read_by_kernel[i].to(at::kFloat), read[i].to(at::kFloat), 1e-5, 1e-5))
          << "input " << i;
    }
  }
  return programs;
}

TEST(KernelSource, ElementsOfAllTypesAndLayouts) {
  const auto place = torch::zeros({40, 64});
  const auto step = [&](const Tensors& in) {
    const auto x = torch::gelu(in[0]) * 1e-3 + in[1];
    const auto mask = x > 0;
    place.copy_(torch::where(mask, x, in[2].t()));
    return Tensors{x.to(at::kBFloat16), mask, torch::sigmoid(in[3]).to(at::kFloat)};
  };
  EXPECT_GE(expect_kernels_as_programs(
                step, {torch::randn({40, 64}), torch::randn({64}), torch::randn({64, 40}),
                       torch::randn({160, 64}).to(at::kBFloat16)}),
            2);
}

TEST(KernelSource, ErfKeepsTheDigitsOfSmallNumbers) {
  Recording recording =
      record([](const Tensors& in) { return Tensors{torch::erf(in[0])}; }, {torch::zeros({64})});
  rewrite(recording.graph, {.fuses = true});
  const auto x = torch::pow(10.0, torch::linspace(-6, 0.7, 64));
  const auto made = torch::zeros({64});
  HostKernel(*recording.graph.nodes[0].kernel->source()).run({x}, {made});
  const auto wanted = torch::erf(x.to(at::kDouble));
  EXPECT_LT(((made - wanted).abs() / wanted).max().item<double>(), 4e-7);
}

TEST(KernelSource, SeveralProgramsInOneLaunch) {
  const auto place = torch::zeros({3, 40});
  const auto step = [&](const Tensors& in) {
    place.copy_(in[2].t());
    return Tensors{torch::gelu(in[0]), in[1].to(at::kBFloat16), torch::softmax(in[1], -1)};
  };
  EXPECT_EQ(expect_kernels_as_programs(
                step, {torch::randn({40, 64}), torch::randn({700, 16}), torch::randn({40, 3})},
                /*groups=*/true),
            1);
}

TEST(KernelSource, CountersAndPaddedChannels) {
  const auto a = torch::zeros({}, at::kLong);
  const auto b = torch::zeros({}, at::kLong);
  const auto w = torch::randn({4, 3, 3, 3});
  const auto step = [&](const Tensors& in) {
    a.add_(1);
    b.add_(2);
    return Tensors{torch::conv2d(in[0].to(at::kBFloat16), w.to(at::kBFloat16))};
  };
  EXPECT_GE(expect_kernels_as_programs(step, {torch::randn({2, 3, 9, 9})}), 1);
}

TEST(KernelSource, GradientsOfEmbeddings) {
  for (const std::int64_t columns : {3, 40, 600}) {
    const auto step = [&](const Tensors& in) {
      return Tensors{at::embedding_dense_backward(in[1], in[0], 9, 4, false)};
    };
    EXPECT_EQ(expect_kernels_as_programs(
                  step, {torch::randint(0, 9, {5, 7}, at::kLong), torch::randn({5, 7, columns})}),
              1);
  }
}

TEST(KernelSource, SumsOfColumnsAndWhatFollowsThem) {
  torch::nn::BatchNorm1d norm(16);
  const auto step = [&](const Tensors& in) {
    const auto x = in[0].detach().requires_grad_();
    (torch::relu(norm(x)) * in[1]).sum().backward();
    return Tensors{x.grad()};
  };
  EXPECT_GE(expect_kernels_as_programs(
                step, {torch::randn({1200, 16}).to(at::kBFloat16), torch::randn({1200, 16})}),
            4);
}

TEST(KernelSource, RowsOfAllLengths) {
  for (const std::int64_t columns : {7, 512, 3000}) {
    const auto w = torch::randn({columns});
    const auto step = [&](const Tensors& in) {
      const auto x = in[0].detach().requires_grad_();
      const auto y = torch::layer_norm(x, {columns}, w);
      (torch::log_softmax(y, -1) * in[1]).sum().backward();
      return Tensors{x.grad()};
    };
    const auto rows = columns == 512 ? 21 : 4;
    EXPECT_GE(expect_kernels_as_programs(
                  step, {torch::randn({rows, columns}), torch::randn({rows, columns})}),
              4);
  }
}

TEST(KernelSource, ManyRowsOfFewColumnsLoadWhatIsOfColumnsOnce) {
  Program program;
  program.sizes = {1056 * 256 * 4 / 2, 16};
  program.inputs = {{at::kBFloat16, {16, 1}, true}, {at::kFloat, {0, 1}, true}};
  program.outputs = {{at::kBFloat16, {16, 1}, true}};
  program.code = {{.op = ScalarOp::kLoad, .place = 0},
                  {.op = ScalarOp::kLoad, .place = 1},
                  {.op = ScalarOp::kMultiply, .a = 0, .b = 1}};
  program.stores = {{0, 2, false}};
  const KernelSource source = source_of(program);
  EXPECT_LT(source.text.find("v1 = "), source.text.find("for (long long x0"));
  const auto x = at::randn({program.sizes[0], 16}).to(at::kBFloat16);
  const auto w = at::randn({16});
  const auto made = at::zeros({program.sizes[0], 16}, at::kBFloat16);
  HostKernel(source).run({x, w}, {made});
  EXPECT_TRUE(at::equal(made, (x.to(at::kFloat) * w).to(at::kBFloat16)));
}

// The kernel's text, compiled for the CPU, beside the kernel on the CPU.
void expect_pooling(const PoolKernel& kernel, const Tensors& inputs, const Tensors& results) {
  Tensors made;
  for (const at::Tensor& result : results) made.push_back(at::empty_like(result));
  kernel.run(inputs, results);
  HostKernel(*kernel.source()).run(inputs, made);
  for (std::size_t i = 0; i < made.size(); ++i) EXPECT_TRUE(at::equal(made[i], results[i])) << i;
}

void expect_pooling_of_libtorch(at::ScalarType type, std::int64_t channels) {
  const auto last = at::MemoryFormat::ChannelsLast;
  const Pooling pooling{.type = type,
                        .batch = 2,
                        .channels = channels,
                        .height = 9,
                        .width = 7,
                        .rows = 5,
                        .columns = 4,
                        .size = 3,
                        .stride = 2,
                        .padding = 1};
  // Few values, so that windows have equal ones.
  const auto x = at::randint(-3, 3, {2, channels, 9, 7}).to(type).contiguous(last);
  const auto y = at::empty({2, channels, 5, 4}, type).contiguous(last);
  const auto places = at::empty({2, channels, 5, 4}, at::kByte).contiguous(last);
  expect_pooling(PoolKernel(pooling, false), {x}, {y, places});
  const auto wide = x.to(at::kFloat).contiguous();
  const auto wanted = at::max_pool2d_with_indices(wide, {3, 3}, {2, 2}, {1, 1});
  EXPECT_TRUE(at::equal(y.to(at::kFloat), std::get<0>(wanted)));
  const auto gradient = at::randint(-4, 4, {2, channels, 5, 4}).to(type).contiguous(last);
  const auto dx = at::empty_like(x);
  expect_pooling(PoolKernel(pooling, true), {gradient, places}, {dx});
  const auto back =
      at::max_pool2d_with_indices_backward(gradient.to(at::kFloat).contiguous(), wide, {3, 3},
                                           {2, 2}, {1, 1}, {1, 1}, false, std::get<1>(wanted));
  EXPECT_TRUE(at::equal(dx.to(at::kFloat), back));
}

TEST(KernelSource, PoolingIsThatOfLibtorch) {
  expect_pooling_of_libtorch(at::kFloat, 3);
  expect_pooling_of_libtorch(at::kBFloat16, 8);
}

TEST(KernelSource, WideLoadsWhereElementsLieSideBySide) {
  Program program;
  program.sizes = {1024, 64};
  program.inputs = {{at::kBFloat16, {64, 1}, true}};
  program.outputs = {{at::kFloat, {64, 1}, true}};
  program.code = {{.op = ScalarOp::kLoad, .place = 0}};
  program.stores = {{0, 0, false}};
  EXPECT_NE(source_of(program).text.find("Some<bf16, 8> v0"), std::string::npos);
  program.inputs[0].aligned = false;
  EXPECT_EQ(source_of(program).text.find("Some<bf16, 8> v0"), std::string::npos);
}

}  // namespace
}  // namespace muster::compiler
