// How fast a checkpoint of 500 MB reaches the disk, and what it costs the thread that trains.

#include <algorithm>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <numeric>
#include <string>
#include <vector>

#include "benchmarks/report.h"
#include "muster/base/file_system.h"
#include "muster/base/log.h"
#include "muster/checkpoint/async_checkpointer.h"
#include "muster/checkpoint/bundle_reader.h"
#include "muster/checkpoint/bundle_writer.h"
#include "muster/testing/temp_dir.h"

namespace {

using muster::TensorView;
using muster::bench::Report;

constexpr double kMegabyte = 1e6;

/// 500 MB in tensors of many sizes, as a large network and its slots have them.
class Network {
 public:
  Network() {
    for (int layer = 0; layer < 40; ++layer) {
      add(layer, "kernel", 3'100'000);
      add(layer, "bias", 1'000);
    }
  }

  std::vector<TensorView> views() const {
    std::vector<TensorView> views;
    for (std::size_t i = 0; i < names_.size(); ++i) {
      views.push_back({.name = names_[i],
                       .shape = {static_cast<std::int64_t>(values_[i].size())},
                       .bytes = std::as_bytes(std::span(values_[i]))});
    }
    return views;
  }

  std::size_t bytes() const {
    std::size_t total = 0;
    for (const auto& tensor : values_) total += tensor.size() * sizeof(float);
    return total;
  }

  const std::vector<std::vector<float>>& values() const { return values_; }

 private:
  void add(int layer, const char* kind, std::size_t elements) {
    names_.push_back("layer_" + std::to_string(layer) + "/" + kind);
    std::iota(values_.emplace_back(elements).begin(), values_.back().end(), 1.0f);
  }

  std::vector<std::string> names_;
  std::vector<std::vector<float>> values_;
};

void write_raw(const Network& network, const muster::Path& path) {
  const auto file = muster::file_system_for(path).create(path);
  for (const TensorView& tensor : network.views()) {
    file->write({reinterpret_cast<const char*>(tensor.bytes.data()), tensor.bytes.size()});
  }
  file->sync();
  file->close();
}

void write_bundle(const Network& network, const muster::Path& prefix) {
  muster::BundleWriter writer(prefix);
  for (const TensorView& tensor : network.views()) writer.add(tensor);
  writer.finish();
}

void measure_file(Report& report, const Network& network) {
  const std::string name = "checkpoint file over raw write+fsync";
  if (!report.wants(name)) return;
  const muster::testing::TempDir dir;
  const auto pair = muster::bench::median_pair([&] { write_bundle(network, dir / "bundle"); },
                                               [&] { write_raw(network, dir / "raw"); },
                                               {report.effort().repetitions, 0});
  const double megabytes = static_cast<double>(network.bytes()) / kMegabyte;
  report.add({.name = name,
              .value = megabytes / pair.work_seconds,
              .unit = "MB/s",
              .limit = megabytes / pair.limit_seconds,
              .at_least = 0.7,
              .aim = 0.9});
}

void measure_read(Report& report, const Network& network) {
  const std::string name = "checkpoint verified and read";
  if (!report.wants(name)) return;
  const muster::testing::TempDir dir;
  write_bundle(network, dir / "bundle");
  const double seconds = muster::bench::median_seconds(
      [&] {
        const muster::BundleReader reader(dir / "bundle");
        reader.verify();
        muster::bench::keep(reader);
      },
      {report.effort().repetitions, 0});
  report.add({.name = name,
              .value = static_cast<double>(network.bytes()) / kMegabyte / seconds,
              .unit = "MB/s"});
}

// What forward and backward do meanwhile: arithmetic on the variables, which they do not change.
float compute(const Network& network) {
  float sum = 0;
  for (int pass = 0; pass < 3; ++pass) {
    for (const auto& tensor : network.values()) {
      for (const float value : tensor) sum += value * 1.0001f;
    }
  }
  return sum;
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

template <typename Work>
double seconds_of(Work&& work) {
  const auto start = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

void copy_all(const Network& network, std::vector<std::vector<float>>& copy) {
  for (std::size_t i = 0; i < copy.size(); ++i) {
    std::memcpy(copy[i].data(), network.values()[i].data(), copy[i].size() * sizeof(float));
  }
  muster::bench::keep(copy);
}

// What a save adds to a thread that does `between` before it changes the variables, as a multiple
// of one memcpy of them.
template <typename Between>
void measure_thread(Report& report, const Network& network, const std::string& name,
                    Between&& between) {
  if (!report.wants(name)) return;
  const muster::testing::TempDir dir;
  std::vector<std::vector<float>> copy = network.values();
  muster::AsyncCheckpointer checkpointer{
      muster::CheckpointStore(dir.path(), {.keep_checkpoint_max = 1})};
  checkpointer.reserve(network.bytes() + (std::size_t{1} << 20));
  const auto views = network.views();
  std::vector<double> added;
  std::vector<double> copied;
  for (int i = 0; i < report.effort().repetitions; ++i) {
    copied.push_back(seconds_of([&] { copy_all(network, copy); }));
    const double alone = seconds_of(between);
    added.push_back(seconds_of([&] {
                      checkpointer.save(i, views);
                      between();
                      checkpointer.wait_until_copied();
                    }) -
                    alone);
    checkpointer.flush();
  }
  report.add({.name = name, .value = median(added) / median(copied), .unit = "memcpys"});
}

}  // namespace

int main(int argc, char** argv) {
  Report report(argc, argv);
  muster::log::set_level(muster::log::Level::kWarning);
  const Network network;
  measure_file(report, network);
  measure_read(report, network);
  measure_thread(report, network,
                 "time added to the training thread, update at once (at most 1.2, aim 0.3)", [] {});
  measure_thread(report, network,
                 "time added to the training thread, next step first (at most 1.2, aim 0.3)",
                 [&] { muster::bench::keep(compute(network)); });
  return report.finish();
}
