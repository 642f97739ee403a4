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
#include "muster/data/checkpoint/async_checkpointer.h"
#include "muster/data/checkpoint/bundle_reader.h"
#include "muster/data/checkpoint/bundle_writer.h"
#include "muster/testing/temp_dir.h"

namespace {

using muster::TensorView;
using muster::bench::Report;

constexpr double kMegabyte = 1e6;

/// 500 MB in tensors of many sizes, as a large network and its slots have them; 12 in a quick run.
class Network {
 public:
  Network() {
    for (int layer = 0; layer < muster::bench::sized(40, 1); ++layer) {
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
    auto& tensor = values_.emplace_back(elements);
    std::iota(tensor.begin(), tensor.end(), 1.0f);
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

// Stands for forward and backward: arithmetic on the variables, which they do not change.
float compute(const Network& network) {
  float sum = 0;
  for (int pass = 0; pass < 3; ++pass) {
    for (const auto& tensor : network.values()) {
      for (const float value : tensor) sum += value * 1.0001f;
    }
  }
  return sum;
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

/// Cost of one save, in seconds, to a thread that does some work before it changes the variables.
struct Cost {
  /// Inside save() and wait_until_copied().
  double held = 0;
  /// The work's slow-down beside the copying and the writing as well.
  double all_in = 0;
};

template <typename Between>
Cost cost_of_save(muster::AsyncCheckpointer& checkpointer, std::int64_t step,
                  const std::vector<TensorView>& views, Between&& between) {
  const double alone = seconds_of(between);
  const double save = seconds_of([&] { checkpointer.save(step, views); });
  const double work = seconds_of(between);
  const double wait = seconds_of([&] { checkpointer.wait_until_copied(); });
  checkpointer.flush();
  return {save + wait, save + work + wait - alone};
}

// Rows in multiples of one memcpy of the variables: at most 1.2, aim 0.3.
template <typename Between>
void measure_thread(Report& report, const Network& network, const std::string& when,
                    Between&& between) {
  const std::string name = "time added to the training thread over one memcpy, " + when;
  if (!report.wants(name)) return;
  const muster::testing::TempDir dir;
  std::vector<std::vector<float>> copy = network.values();
  muster::AsyncCheckpointer checkpointer{
      muster::CheckpointStore(dir.path(), {.keep_checkpoint_max = 1})};
  checkpointer.reserve(network.bytes() + (std::size_t{1} << 20));
  const auto views = network.views();
  std::vector<double> held;
  std::vector<double> all_in;
  std::vector<double> copied;
  for (int i = 0; i < report.effort().repetitions; ++i) {
    copied.push_back(seconds_of([&] { copy_all(network, copy); }));
    const Cost cost = cost_of_save(checkpointer, i, views, between);
    held.push_back(cost.held);
    all_in.push_back(cost.all_in);
  }
  report.add({.name = name,
              .value = muster::bench::median(held) / muster::bench::median(copied),
              .unit = "memcpys"});
  report.add({.name = name + ", with the slow-down of the work beside the writing",
              .value = muster::bench::median(all_in) / muster::bench::median(copied),
              .unit = "memcpys"});
}

}  // namespace

int main(int argc, char** argv) {
  Report report(argc, argv);
  muster::log::set_level(muster::log::Level::kWarning);
  const Network network;
  measure_file(report, network);
  measure_read(report, network);
  measure_thread(report, network, "update at once", [] {});
  measure_thread(report, network, "next step first",
                 [&] { muster::bench::keep(compute(network)); });
  return report.finish();
}
