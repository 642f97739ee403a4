// Whole training steps of two models in plain libtorch layers, in bfloat16: eager, the eager step
// as a CUDA graph, and the same compiled (muster/train/compiler). benchmarks/anchors/own_models.py
// is the same in PyTorch.
//
//   compiled_steps [--models resnet18,transformer] [--dump FOLDER] [--small]
//
// --dump writes each model's graphs before and after, and the time of each operation on the GPU.
// --small takes small sizes, to see that it runs.
#include <fmt/core.h>
#include <torch/torch.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <map>
#include <string>
#include <vector>

#include "muster/nn/device/gpu.h"
#include "muster/nn/kernels/torch_compat.h"
#include "muster/train/compiler/compiled_step.h"
#include "muster/train/compiler/interpreter.h"
#include "muster/train/compiler/recorder.h"

namespace muster {
namespace {

using Tensors = std::vector<at::Tensor>;

struct Sizes {
  std::int64_t batch, side, width, length, words, layers;
};

struct BlockImpl : torch::nn::Module {
  torch::nn::Conv2d c1{nullptr}, c2{nullptr}, cs{nullptr};
  torch::nn::BatchNorm2d n1{nullptr}, n2{nullptr}, ns{nullptr};
  BlockImpl(int in, int out, int stride) {
    const auto conv = [](int from, int to, int size, int step) {
      return torch::nn::Conv2d(
          torch::nn::Conv2dOptions(from, to, size).stride(step).padding(size / 2).bias(false));
    };
    c1 = register_module("c1", conv(in, out, 3, stride));
    n1 = register_module("n1", torch::nn::BatchNorm2d(out));
    c2 = register_module("c2", conv(out, out, 3, 1));
    n2 = register_module("n2", torch::nn::BatchNorm2d(out));
    if (stride == 1 && in == out) return;
    cs = register_module("cs", conv(in, out, 1, stride));
    ns = register_module("ns", torch::nn::BatchNorm2d(out));
  }
  at::Tensor forward(const at::Tensor& x) {
    const auto y = n2(c2(torch::relu(n1(c1(x)))));
    return torch::relu(y + (cs.is_empty() ? x : ns(cs(x))));
  }
};
TORCH_MODULE(Block);

struct ResNet18 : torch::nn::Module {
  torch::nn::Conv2d stem{nullptr};
  torch::nn::BatchNorm2d norm{nullptr};
  torch::nn::Sequential blocks;
  torch::nn::Linear fc{nullptr};
  ResNet18() {
    stem = register_module(
        "stem",
        torch::nn::Conv2d(torch::nn::Conv2dOptions(3, 64, 7).stride(2).padding(3).bias(false)));
    norm = register_module("norm", torch::nn::BatchNorm2d(64));
    int in = 64;
    for (const int out : {64, 128, 256, 512}) {
      for (int i = 0; i < 2; ++i) {
        blocks->push_back(Block(in, out, i == 0 && out != 64 ? 2 : 1));
        in = out;
      }
    }
    register_module("blocks", blocks);
    fc = register_module("fc", torch::nn::Linear(512, 1000));
  }
  at::Tensor forward(const at::Tensor& image) {
    auto x = image.to(torch::MemoryFormat::ChannelsLast);
    x = torch::max_pool2d(torch::relu(norm(stem(x))), 3, 2, 1);
    return fc(blocks->forward(x).mean({2, 3}));
  }
};

at::Tensor attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v) {
#if MUSTER_TORCH_AT_LEAST(2, 1)
  return at::scaled_dot_product_attention(q, k, v, {}, 0.0, true);
#else
  const auto weights = q.matmul(k.transpose(-2, -1)) / std::sqrt(static_cast<double>(q.size(-1)));
  return torch::softmax(weights, -1).matmul(v);
#endif
}

struct LayerImpl : torch::nn::Module {
  torch::nn::LayerNorm n1{nullptr}, n2{nullptr};
  torch::nn::Linear qkv{nullptr}, proj{nullptr}, up{nullptr}, down{nullptr};
  std::int64_t heads;
  LayerImpl(std::int64_t d, std::int64_t h) : heads(h) {
    n1 = register_module("n1", torch::nn::LayerNorm(torch::nn::LayerNormOptions({d})));
    n2 = register_module("n2", torch::nn::LayerNorm(torch::nn::LayerNormOptions({d})));
    qkv = register_module("qkv", torch::nn::Linear(d, 3 * d));
    proj = register_module("proj", torch::nn::Linear(d, d));
    up = register_module("up", torch::nn::Linear(d, 4 * d));
    down = register_module("down", torch::nn::Linear(4 * d, d));
  }
  at::Tensor forward(at::Tensor x) {
    const auto b = x.size(0), t = x.size(1), d = x.size(2);
    const auto p = qkv(n1(x)).view({b, t, 3, heads, d / heads}).permute({2, 0, 3, 1, 4});
    const auto a = attention(p[0], p[1], p[2]);
    x = x + proj(a.transpose(1, 2).reshape({b, t, d}));
    return x + down(torch::gelu(up(n2(x))));
  }
};
TORCH_MODULE(Layer);

struct Transformer : torch::nn::Module {
  torch::nn::Embedding words{nullptr}, places{nullptr};
  torch::nn::Sequential layers;
  torch::nn::Linear out{nullptr};
  explicit Transformer(const Sizes& sizes) {
    words = register_module("words", torch::nn::Embedding(sizes.words, sizes.width));
    places = register_module("places", torch::nn::Embedding(sizes.length, sizes.width));
    for (std::int64_t i = 0; i < sizes.layers; ++i) layers->push_back(Layer(sizes.width, 8));
    register_module("layers", layers);
    out = register_module("out", torch::nn::Linear(sizes.width, 1000));
  }
  at::Tensor forward(const at::Tensor& tokens) {
    return out(layers->forward(words(tokens) + places->weight).mean(1));
  }
};

/// A model, its variables and gradients in flat memory, and whole steps of it.
class Trained {
 public:
  using Forward = std::function<at::Tensor(const at::Tensor&)>;
  Trained(torch::nn::Module& module, Forward forward, c10::Device device)
      : forward_(std::move(forward)), device_(device) {
    module.to(device);
    std::int64_t size = 0;
    for (const at::Tensor& one : module.parameters()) size += (one.numel() + 15) / 16 * 16;
    const auto options = at::TensorOptions(at::kFloat).device(device);
    values_ = at::zeros({size}, options);
    gradients_ = at::zeros({size}, options);
    momentum_ = at::zeros({size}, options);
    std::int64_t next = 0;
    for (at::Tensor& one : module.parameters()) {
      const auto place = [&](const at::Tensor& flat) {
        return flat.narrow(0, next, one.numel()).view(one.sizes());
      };
      place(values_).copy_(one.detach());
      one.set_data(place(values_));
      one.mutable_grad() = place(gradients_);
      next += (one.numel() + 15) / 16 * 16;
    }
  }

  Tensors step(const Tensors& in) {
    gradients_.zero_();
    at::Tensor loss;
    {
      const compat::AutocastScope autocast(true, device_.type(), at::kBFloat16);
      loss = torch::cross_entropy_loss(forward_(in[0]), in[1]);
    }
    loss.backward();
    const torch::NoGradGuard no_grad;
    momentum_.mul_(0.9).add_(gradients_);
    // So slow that hundreds of steps on one batch do not learn it by heart.
    values_.sub_(momentum_, 1e-5);
    return {loss.detach()};
  }

 private:
  Forward forward_;
  c10::Device device_;
  at::Tensor values_, gradients_, momentum_;
};

double milliseconds(c10::Device device, const std::function<void()>& work, int times) {
  for (int i = 0; i < 3; ++i) work();
  wait_for_device(device);
  std::vector<double> rounds;
  for (int round = 0; round < 5; ++round) {
    const auto start = std::chrono::steady_clock::now();
    for (int i = 0; i < times; ++i) work();
    wait_for_device(device);
    const std::chrono::duration<double, std::milli> all = std::chrono::steady_clock::now() - start;
    rounds.push_back(all.count() / times);
  }
  std::ranges::sort(rounds);
  return rounds[2];
}

// The work as a CUDA graph, where there is a GPU.
double captured(c10::Device device, const std::function<void()>& work, int times) {
  CapturedWork graph(device);
  const auto why = graph.capture(work);
  if (why) fmt::print("  not captured: {}\n", *why);
  return milliseconds(
      device, why ? work : [&] { graph.replay(); }, times);
}

// The time of each node on the GPU, by its operation and what it makes.
void profile(const compiler::Interpreter& interpreter, const Tensors& inputs, c10::Device device,
             const std::string& file) {
  struct Row {
    double milliseconds = 0;
    int count = 0;
  };
  std::map<std::string, Row> rows;
  constexpr int kTimes = 20;
  interpreter.run(inputs, [&](const compiler::Node& node, const std::function<void()>& execute) {
    CapturedWork graph(device);
    const auto many = [&] {
      for (int i = 0; i < kTimes; ++i) execute();
    };
    const bool fails = graph.capture(many).has_value();
    const auto again = fails ? std::function<void()>(many) : [&] { graph.replay(); };
    again();
    wait_for_device(device);
    const auto start = std::chrono::steady_clock::now();
    again();
    wait_for_device(device);
    const std::chrono::duration<double, std::milli> all = std::chrono::steady_clock::now() - start;
    std::string name = node.name();
    for (const auto value : compiler::values_read(node)) {
      name += " " + compiler::describe(interpreter.graph().geometry(value));
    }
    Row& row = rows[name];
    row.milliseconds += all.count() / kTimes;
    ++row.count;
  });
  std::vector<std::pair<std::string, Row>> sorted(rows.begin(), rows.end());
  std::ranges::sort(sorted, [](const auto& a, const auto& b) {
    return a.second.milliseconds > b.second.milliseconds;
  });
  std::ofstream out(file);
  for (const auto& [name, row] : sorted) {
    out << fmt::format("{:8.4f} ms {:4} x {}\n", row.milliseconds, row.count, name);
  }
}

void run(const std::string& kind, const Sizes& sizes, c10::Device device, const std::string& dump,
         int times) {
  const StreamScope stream(device);
  torch::manual_seed(0);
  const auto on = at::TensorOptions().device(device);
  const auto label = torch::randint(0, 1000, {sizes.batch}, on.dtype(at::kLong));
  const auto resnet = std::make_shared<ResNet18>();
  const auto transformer = std::make_shared<Transformer>(sizes);
  const bool images = kind == "resnet18";
  const Tensors inputs{
      images ? torch::randn({sizes.batch, 3, sizes.side, sizes.side}, on)
             : torch::randint(0, sizes.words, {sizes.batch, sizes.length}, on.dtype(at::kLong)),
      label};
  torch::nn::Module& module = images ? static_cast<torch::nn::Module&>(*resnet) : *transformer;
  Trained trained(
      module,
      [&](const at::Tensor& x) { return images ? resnet->forward(x) : transformer->forward(x); },
      device);
  const auto step = [&](const Tensors& in) { return trained.step(in); };
  const auto say = [&](const char* how, double ms) {
    fmt::print("{} batch {} {}: {:.1f} examples/s ({:.3f} ms)\n", kind, sizes.batch, how,
               1e3 * static_cast<double>(sizes.batch) / ms, ms);
    std::fflush(stdout);
  };
  for (int i = 0; i < 3; ++i) step(inputs);
  say("eager", milliseconds(
                   device, [&] { step(inputs); }, times));
  say("captured", captured(
                      device, [&] { step(inputs); }, times));

  for (const std::string how : {"rewritten", "fused without pooling", "fused"}) {
    const bool fuses = how != "rewritten";
    if (how == "fused without pooling" && !images) continue;
    compiler::CompiledStep compiled(
        {.passes = {.padding = 16, .pools = how == "fused"}, .may_fuse = fuses, .name = kind});
    const auto start = std::chrono::steady_clock::now();
    for (int i = 0; i < 3; ++i) compiled.run(inputs, step);
    wait_for_device(device);
    const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
    fmt::print("{} {}: three steps, recording, compiling and checks included, took {:.2f} s\n",
               kind, how, seconds.count());
    say(how.c_str(), milliseconds(
                         device, [&] { compiled.run(inputs, step); }, times));
    say(fmt::format("{}, captured", how).c_str(),
        captured(
            device, [&] { compiled.run(inputs, step); }, times));
    fmt::print("{}\n", compiled.explain());
  }
  if (dump.empty()) return;
  const compiler::Recording recording = compiler::record(step, inputs);
  compiler::Graph graph = recording.graph;
  std::ofstream(dump + "/" + kind + "_before.txt") << compiler::to_text(graph);
  profile(compiler::Interpreter(graph), inputs, device, dump + "/" + kind + "_before_times.txt");
  compiler::rewrite(graph, {.padding = 16, .fuses = device.is_cuda()});
  std::ofstream(dump + "/" + kind + "_after.txt") << compiler::to_text(graph);
  profile(compiler::Interpreter(graph), inputs, device, dump + "/" + kind + "_after_times.txt");
}

}  // namespace
}  // namespace muster

int main(int argc, char** argv) {
  std::string models = "resnet18,transformer";
  std::string dump;
  bool small = false;
  for (int i = 1; i < argc; ++i) {
    const std::string flag = argv[i];
    if (flag == "--small") small = true;
    if (flag == "--models" && i + 1 < argc) models = argv[++i];
    if (flag == "--dump" && i + 1 < argc) dump = argv[++i];
  }
  const c10::Device device(muster::gpu_count() > 0 ? c10::kCUDA : c10::kCPU,
                           muster::gpu_count() > 0 ? 0 : -1);
  at::globalContext().setBenchmarkCuDNN(true);
  at::globalContext().setAllowTF32CuBLAS(true);
  at::globalContext().setAllowTF32CuDNN(true);
  const int times = small ? 1 : 20;
  using muster::Sizes;
  for (const char* kind : {"resnet18", "transformer"}) {
    if (models.find(kind) == std::string::npos) continue;
    const bool images = std::string(kind) == "resnet18";
    const Sizes sizes =
        small ? Sizes{2, 32, 32, 8, 50, 2} : Sizes{images ? 128 : 32, 224, 512, 256, 16000, 6};
    muster::run(kind, sizes, device, dump, times);
  }
  return 0;
}
