// How fast a module gets 400 MB of weights from a safetensors file in the page cache, over memcpy
// of the same bytes and over read() of the same file.

#include <ATen/Functions.h>
#include <fcntl.h>
#include <torch/nn/module.h>
#include <unistd.h>

#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "benchmarks/report.h"
#include "muster/base/error.h"
#include "muster/base/log.h"
#include "muster/base/open_file.h"
#include "muster/nn/weights/load_weights.h"
#include "muster/testing/temp_dir.h"

namespace {

using muster::bench::Report;

constexpr double kGigabyte = 1e9;

/// Matrices as a transformer of 100 million parameters has them; three in a quick run.
struct Matrices : torch::nn::Module {
  Matrices() {
    for (int i = 0; i < muster::bench::sized(100, 3); ++i) {
      values.push_back(register_parameter("layer" + std::to_string(i), at::rand({1000, 1000})));
    }
  }

  std::size_t bytes() const { return values.size() * values[0].nbytes(); }

  std::vector<at::Tensor> values;
};

void copy_all(const Matrices& from, const Matrices& to) {
  for (std::size_t i = 0; i < from.values.size(); ++i) {
    std::memcpy(to.values[i].data_ptr(), from.values[i].data_ptr(), from.values[i].nbytes());
  }
}

void read_all(const muster::Path& path, const Matrices& to) {
  const muster::OpenFile file(path, O_RDONLY);
  for (const at::Tensor& value : to.values) {
    auto* at = static_cast<char*>(value.data_ptr());
    for (std::size_t left = value.nbytes(); left > 0;) {
      const ssize_t count = ::read(file.get(), at, left);
      if (count <= 0) muster::throw_errno(errno, "reading " + path.string());
      at += count;
      left -= static_cast<std::size_t>(count);
    }
  }
}

}  // namespace

int main(int argc, char** argv) {
  Report report(argc, argv);
  muster::log::set_level(muster::log::Level::kWarning);
  const muster::testing::TempDir dir;
  const muster::Path path = dir / "w.safetensors";
  const Matrices saved;
  Matrices loaded;
  muster::save_weights(saved, path);
  const double gigabytes = static_cast<double>(saved.bytes()) / kGigabyte;
  const auto load = [&] { muster::load_weights(loaded, path); };
  const auto measure = [&](const std::string& limit, const std::function<void()>& work) {
    const std::string name = "module gets weights from safetensors, over " + limit;
    if (!report.wants(name)) return;
    const auto pair = muster::bench::median_pair(load, work, {report.effort().repetitions, 0});
    report.add({.name = name,
                .value = gigabytes / pair.work_seconds,
                .unit = "GB/s",
                .limit = gigabytes / pair.limit_seconds,
                .at_least = 0.5,
                .aim = 0.9});
  };
  measure("memcpy of the same bytes", [&] { copy_all(saved, loaded); });
  measure("read() of the same file", [&] { read_all(path, loaded); });
  return report.finish();
}
