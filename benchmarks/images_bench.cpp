// Training pictures: 500 x 375 JPEGs decoded, a random part resized to 224 x 224, mirrored half of
// the time and normalised, by one thread, in time of its processor. The limit is the best of Pillow
// with numpy, Pillow with torchvision, and torchvision alone on the same files in the same run
// (benchmarks/anchors/images_pillow.py), timed between two halves of ours.
#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <nlohmann/json.hpp>
#include <numeric>
#include <optional>
#include <string>
#include <vector>

#include "benchmarks/report.h"
#include "muster/base/file_system.h"
#include "muster/data/images/image_encoder.h"
#include "muster/data/images/normalise.h"
#include "muster/data/images/random_crop.h"
#include "muster/testing/temp_dir.h"

namespace muster {
namespace {

const int kFiles = bench::sized(48, 2);
constexpr std::int64_t kHeight = 375;
constexpr std::int64_t kWidth = 500;

/// Soft shapes and the grain of a camera: about the bytes that a photograph of this size has.
Image make_photograph(std::uint64_t seed) {
  Random random(seed);
  Image image{.height = kHeight, .width = kWidth};
  image.pixels.reserve(static_cast<std::size_t>(kHeight) * image.row_bytes());
  std::vector<double> waves(36);
  for (double& wave : waves) wave = random.uniform(-1, 1);
  for (std::int64_t y = 0; y < kHeight; ++y) {
    for (std::int64_t x = 0; x < kWidth; ++x) {
      double shape = 0;
      for (std::size_t i = 0; i + 2 < waves.size(); i += 3) {
        const double scale = 0.01 * static_cast<double>(i + 1);
        shape += std::sin(
            (waves[i] * static_cast<double>(x) + waves[i + 1] * static_cast<double>(y)) * scale +
            waves[i + 2] * 3);
      }
      const double grain = random.normal() * 7;
      for (std::size_t c = 0; c < 3; ++c) {
        const double value = 128 + 22 * shape * (1 + 0.3 * waves[c]) + grain + random.normal() * 2;
        image.pixels.push_back(static_cast<std::uint8_t>(std::clamp(value, 0.0, 255.0)));
      }
    }
  }
  return image;
}

std::vector<std::string> write_files(const Path& folder) {
  std::vector<std::string> files;
  files.reserve(static_cast<std::size_t>(kFiles));
  for (int i = 0; i < kFiles; ++i) {
    files.push_back(encode_jpeg(make_photograph(static_cast<std::uint64_t>(i)), 92));
    muster::testing::write_bytes(folder / fmt::format("{}.jpg", i), files.back());
  }
  return files;
}

double images_per_second(const std::vector<std::string>& files,
                         const std::function<void(const std::string&, Random&)>& work,
                         const bench::Effort& effort) {
  std::uint64_t epoch = 0;
  const double seconds = bench::least_thread_seconds(
      [&] {
        ++epoch;
        for (std::size_t i = 0; i < files.size(); ++i) {
          Random random(1, epoch, i);
          work(files[i], random);
        }
      },
      effort);
  return static_cast<double>(files.size()) / seconds;
}

/// Nothing where Pillow is not installed.
std::optional<double> anchor(const Path& folder) {
  const char* python = std::getenv("MUSTER_PYTHON");
  const std::string command =
      fmt::format("{} {}/benchmarks/anchors/images_pillow.py {}{} 2>/dev/null",
                  python == nullptr ? "/usr/bin/python3" : python, MUSTER_SOURCE_DIR,
                  folder.string(), bench::is_quick() ? " --rounds 1" : "");
  std::FILE* output = popen(command.c_str(), "r");
  if (output == nullptr) return std::nullopt;
  std::string text(4096, '\0');
  text.resize(std::fread(text.data(), 1, text.size(), output));
  if (pclose(output) != 0 || text.empty()) {
    fmt::print(stderr, "no anchor: python3-pil is not installed; `scripts/setup --zoo` does it\n");
    return std::nullopt;
  }
  const auto answer = nlohmann::json::parse(text);
  for (const auto& [name, rate] : answer.at("all").items()) {
    fmt::print("{}: {:.0f} images/s\n", name, rate.get<double>());
  }
  return answer.at("images_per_second").get<double>();
}

void measure(bench::Report& report) {
  const muster::testing::TempDir folder;
  const auto files = write_files(folder.path());
  const auto bytes =
      std::accumulate(files.begin(), files.end(), std::size_t{0},
                      [](std::size_t sum, const auto& file) { return sum + file.size(); });
  fmt::print("{} JPEGs of {} x {}, {} bytes on average\n", files.size(), kWidth, kHeight,
             bytes / files.size());
  const RandomResizedCrop crop;
  std::vector<float> values(std::size_t{224} * 224 * 3);
  const auto train = [&](const std::string& file, Random& random) {
    ImageDecoder decoder(file, "file");
    normalise(random_resized_crop(decoder, crop, random), {}, values);
    bench::keep(values);
  };
  bench::Row row{.name = "images: decode, random crop, mirror, normalise",
                 .unit = "images/s",
                 .at_least = 1.5,
                 .aim = 3};
  if (report.wants(row.name)) {
    const double before = images_per_second(files, train, report.effort());
    row.limit = anchor(folder.path());
    row.value = std::max(before, images_per_second(files, train, report.effort()));
    report.add(row);
  }
  const auto part = [&](const std::string& file, Random& random) {
    ImageDecoder decoder(file, "file");
    bench::keep(random_resized_crop(decoder, crop, random));
  };
  const auto whole = [&](const std::string& file, Random&) {
    bench::keep(ImageDecoder(file, "file").decode());
  };
  const Image photograph = make_photograph(1);
  const auto resized = [&](const std::string&, Random& random) {
    bench::keep(resize(photograph, random_box(kHeight, kWidth, crop, random), 224, 224));
  };
  const std::vector<std::pair<std::string, std::function<void(const std::string&, Random&)>>>
      steps = {{"images: decode and random crop", part},
               {"images: decode all of it", whole},
               {"images: resize a random part", resized}};
  for (const auto& [name, work] : steps) {
    if (!report.wants(name)) continue;
    report.add({.name = name,
                .value = images_per_second(files, work, report.effort()),
                .unit = "images/s"});
  }
}

}  // namespace
}  // namespace muster

int main(int argc, char** argv) {
  muster::bench::Report report(argc, argv);
  muster::measure(report);
  return report.finish();
}
