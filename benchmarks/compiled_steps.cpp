// Whole training steps of six models in plain libtorch layers, in bfloat16: eager, the eager step
// as a CUDA graph, and the same compiled (muster/train/compiler). benchmarks/anchors/own_models.py
// is the same in PyTorch.
//
//   compiled_steps [--models resnet18,transformer,unet,lstm,resnet44,mnist] [--dump FOLDER]
//   [--small]
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
#include "own_models.h"

namespace muster {
namespace {

using Tensors = std::vector<at::Tensor>;
using own_models::Sizes;

/// A model, its variables and gradients in flat memory, and whole steps of it.
class Trained {
 public:
  using Forward = own_models::Forward;
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
  const auto [x, label] = own_models::batch_of(kind, sizes);
  const Tensors inputs{x.to(device), label.to(device)};
  const auto [module, forward] = own_models::make_model(kind, sizes);
  Trained trained(*module, forward, device);
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

  for (const std::string how : {"rewritten", "fused"}) {
    const bool fuses = how != "rewritten";
    compiler::CompiledStep compiled({.passes = {.padding = 16}, .may_fuse = fuses, .name = kind});
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
  std::string models = "resnet18,transformer,unet,lstm,resnet44,mnist";
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
  for (const char* kind : {"resnet18", "transformer", "unet", "lstm", "resnet44", "mnist"}) {
    if (models.find(kind) == std::string::npos) continue;
    muster::run(kind, muster::own_models::sizes_of(kind, small), device, dump, times);
  }
  return 0;
}
