// How fast Examples are parsed to views, and built.

#include <cstdint>
#include <string>
#include <vector>

#include "benchmarks/report.h"
#include "muster/base/random.h"
#include "muster/data/records/example_builder.h"
#include "muster/data/records/example_parser.h"
#include "muster/data/records/parse_spec.h"

namespace {

using muster::ExampleBuilder;
using muster::Random;

constexpr std::size_t kExamples = 4096;
constexpr double kMillion = 1e6;

/// Pictures of 3,072 bytes with a label, as the CIFAR-10 records hold them: 12 MB, more than a
/// cache.
std::vector<std::string> cifar_examples() {
  std::vector<std::string> examples;
  Random random(7);
  std::string image(3072, '\0');
  for (std::size_t i = 0; i < kExamples; ++i) {
    for (auto& byte : image) byte = static_cast<char>(random.next_u32());
    examples.push_back(ExampleBuilder()
                           .add_bytes("image", image)
                           .add_int("label", static_cast<std::int64_t>(i % 10))
                           .serialize());
  }
  return examples;
}

double million_per_second(double seconds) { return kExamples / seconds / kMillion; }

void parse_to_views(const std::vector<std::string>& examples) {
  static const muster::ExampleParser parser({"image", "label"});
  muster::ExampleView view;
  for (const auto& example : examples) {
    parser.parse(example, view);
    muster::bench::keep(view);
  }
}

void parse_and_read(const std::vector<std::string>& examples) {
  static const muster::ExampleParser parser({"image", "label"});
  muster::ExampleView view;
  std::int64_t sum = 0;
  for (const auto& example : examples) {
    parser.parse(example, view);
    sum += view[1].first_int64() + static_cast<std::int64_t>(view[0].first_bytes().size());
  }
  muster::bench::keep(sum);
}

void decode_batches(const std::vector<std::string_view>& examples) {
  static const muster::ExampleDecoder decoder(
      {{"image", muster::FixedLen{.kind = muster::FeatureKind::kBytes}},
       {"label", muster::FixedLen{.kind = muster::FeatureKind::kInt64}}});
  constexpr std::size_t kBatch = 128;
  for (std::size_t i = 0; i < examples.size(); i += kBatch) {
    muster::bench::keep(decoder.decode(std::span(examples).subspan(i, kBatch)));
  }
}

void build(const std::string& image, std::string& out) {
  for (std::size_t i = 0; i < kExamples; ++i) {
    out.clear();
    ExampleBuilder()
        .add_bytes("image", image)
        .add_int("label", static_cast<std::int64_t>(i % 10))
        .serialize_to(out);
    muster::bench::keep(out);
  }
}

}  // namespace

int main(int argc, char** argv) {
  muster::bench::Report report(argc, argv);
  const auto examples = cifar_examples();
  const std::vector<std::string_view> views(examples.begin(), examples.end());
  const auto add = [&](const char* name, const std::function<void()>& work,
                       std::optional<double> at_least, std::optional<double> aim) {
    if (!report.wants(name)) return;
    report.add({.name = name,
                .value = million_per_second(muster::bench::median_seconds(work, report.effort())),
                .unit = "million/s",
                .at_least = at_least,
                .aim = aim});
  };
  add(
      "parse a CIFAR Example to views", [&] { parse_to_views(examples); }, 8, 15);
  add("parse a CIFAR Example and read both values", [&] { parse_and_read(examples); }, {}, {});
  add("decode CIFAR Examples to columns of 128", [&] { decode_batches(views); }, {}, {});
  std::string out;
  add("build a CIFAR Example", [&] { build(examples.front(), out); }, {}, {});
  return report.finish();
}
