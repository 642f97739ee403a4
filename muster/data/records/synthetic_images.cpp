#include "muster/data/records/synthetic_images.h"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <span>

#include "muster/base/error.h"
#include "muster/base/random.h"

namespace muster {
namespace {

// Integers throughout, so that every machine draws the same bytes.

constexpr std::size_t kClasses = 10;

int draw_between(Random& random, int low, int high) {
  return low + static_cast<int>(random.below(static_cast<std::uint64_t>(high - low + 1)));
}

/// About normal with mean 0: four bytes of one random word, added. Deviation about 148 over
/// `divisor`.
int draw_noise(Random& random, int divisor) {
  const std::uint32_t word = random.next_u32();
  const int sum =
      static_cast<int>((word & 0xFF) + (word >> 8 & 0xFF) + (word >> 16 & 0xFF) + (word >> 24));
  return (sum - 510) / divisor;
}

char to_byte(int value) { return static_cast<char>(std::clamp(value, 0, 255)); }

template <typename DrawImage>
SyntheticImages make_images(const SyntheticImageOptions& options, std::size_t image_bytes,
                            DrawImage draw_image) {
  if (!(options.label_noise >= 0 && options.label_noise < 1)) {
    throw InvalidArgument("label_noise must be at least 0 and below 1: {}", options.label_noise);
  }
  SyntheticImages images{.image_bytes = image_bytes};
  images.pixels.reserve(options.count * image_bytes);
  for (std::size_t i = 0; i < options.count; ++i) {
    Random random(options.seed, /*epoch=*/0, i);
    const auto shown = static_cast<std::uint8_t>(random.below(kClasses));
    const bool wrong = random.uniform() < options.label_noise;
    const std::uint64_t other = (shown + 1 + random.below(kClasses - 1)) % kClasses;
    images.classes.push_back(shown);
    images.labels.push_back(wrong ? static_cast<std::uint8_t>(other) : shown);
    draw_image(random, shown, images.pixels);
  }
  return images;
}

// --- CIFAR-10 ---

constexpr int kSide = 32;

struct CifarClass {
  std::array<int, 3> sky;     // red, green, blue at the top
  std::array<int, 3> ground;  // at the bottom
  int stripe_x, stripe_y;     // direction and frequency of the stripes
  int width, height;          // of the thing in the middle, in halves
  bool round;
};

constexpr std::array<CifarClass, kClasses> kCifarClasses{{
    {{150, 180, 220}, {130, 160, 200}, 0, 4, 13, 4, true},   // airplane
    {{140, 140, 150}, {90, 90, 95}, 4, 0, 12, 6, false},     // automobile
    {{160, 190, 170}, {110, 140, 80}, 3, 3, 6, 8, true},     // bird
    {{150, 130, 110}, {130, 110, 95}, 2, 1, 9, 9, true},     // cat
    {{120, 140, 90}, {100, 120, 60}, 1, 2, 7, 11, false},    // deer
    {{155, 140, 125}, {120, 105, 90}, 3, -3, 10, 10, true},  // dog
    {{90, 120, 60}, {110, 100, 60}, 5, 2, 8, 5, true},       // frog
    {{160, 160, 140}, {110, 120, 70}, 2, -5, 12, 9, false},  // horse
    {{150, 175, 205}, {60, 90, 130}, 0, 6, 14, 5, false},    // ship
    {{150, 155, 165}, {105, 100, 95}, 6, 0, 11, 10, false},  // truck
}};

/// Properties that vary from picture to picture.
struct CifarPose {
  int x, y, phase, light, contrast;
  std::array<int, 3> colour;
};

CifarPose draw_pose(Random& random) {
  CifarPose pose{};
  pose.x = draw_between(random, 12, 19);
  pose.y = draw_between(random, 12, 19);
  pose.phase = draw_between(random, 0, 63);
  pose.light = draw_between(random, -35, 35);
  pose.contrast = draw_between(random, 14, 34);
  for (int& channel : pose.colour) channel = draw_between(random, -70, 70);
  return pose;
}

bool inside(const CifarClass& kind, int dx, int dy) {
  if (!kind.round) return std::abs(dx) <= kind.width && std::abs(dy) <= kind.height;
  const int w2 = kind.width * kind.width;
  const int h2 = kind.height * kind.height;
  return dx * dx * h2 + dy * dy * w2 <= w2 * h2;
}

/// Light and dark bands, 64 steps a period.
int stripe(const CifarClass& kind, const CifarPose& pose, int x, int y) {
  const int place = (kind.stripe_x * x + kind.stripe_y * y) * 2 + pose.phase;
  return (place & 63) < 32 ? pose.contrast : -pose.contrast;
}

void draw_cifar10(Random& random, std::uint8_t shown, std::string& out) {
  const CifarClass& kind = kCifarClasses[shown];
  const CifarPose pose = draw_pose(random);
  for (std::size_t channel = 0; channel < 3; ++channel) {
    for (int y = 0; y < kSide; ++y) {
      const int base =
          (kind.sky[channel] * (kSide - 1 - y) + kind.ground[channel] * y) / (kSide - 1) +
          pose.light;
      for (int x = 0; x < kSide; ++x) {
        const bool thing = inside(kind, x - pose.x, y - pose.y);
        const int value = base + (thing ? pose.colour[channel] + stripe(kind, pose, x, y) : 0);
        out.push_back(to_byte(value + draw_noise(random, 8)));
      }
    }
  }
}

// --- MNIST ---

constexpr int kMnistSide = 28;
/// Steps a pixel.
constexpr int kSub = 16;

struct Point {
  int x, y;
};

// Strokes on a grid of 10 x 14, each one line from point to point.
constexpr std::array<Point, 9> kZero{
    {{3, 0}, {7, 0}, {10, 3}, {10, 11}, {7, 14}, {3, 14}, {0, 11}, {0, 3}, {3, 0}}};
constexpr std::array<Point, 3> kOne{{{2, 3}, {5, 0}, {5, 14}}};
constexpr std::array<Point, 7> kTwo{{{0, 3}, {3, 0}, {7, 0}, {10, 3}, {10, 5}, {0, 14}, {10, 14}}};
constexpr std::array<Point, 11> kThree{
    {{0, 1}, {3, 0}, {7, 0}, {10, 3}, {7, 6}, {4, 7}, {7, 7}, {10, 10}, {7, 14}, {3, 14}, {0, 12}}};
constexpr std::array<Point, 4> kFour{{{7, 14}, {7, 0}, {0, 9}, {10, 9}}};
constexpr std::array<Point, 8> kFive{
    {{10, 0}, {1, 0}, {0, 6}, {6, 5}, {10, 8}, {9, 12}, {6, 14}, {0, 13}}};
constexpr std::array<Point, 9> kSix{
    {{9, 0}, {4, 2}, {0, 8}, {1, 12}, {5, 14}, {9, 12}, {10, 9}, {6, 7}, {1, 9}}};
constexpr std::array<Point, 3> kSeven{{{0, 0}, {10, 0}, {4, 14}}};
constexpr std::array<Point, 13> kEight{{{5, 7},
                                        {1, 4},
                                        {2, 1},
                                        {5, 0},
                                        {8, 1},
                                        {9, 4},
                                        {5, 7},
                                        {0, 10},
                                        {1, 13},
                                        {5, 14},
                                        {9, 13},
                                        {10, 10},
                                        {5, 7}}};
constexpr std::array<Point, 8> kNine{
    {{9, 5}, {5, 7}, {1, 5}, {1, 2}, {4, 0}, {8, 0}, {9, 5}, {8, 14}}};

constexpr std::array<std::span<const Point>, kClasses> kDigitShapes{
    kZero, kOne, kTwo, kThree, kFour, kFive, kSix, kSeven, kEight, kNine};

/// The strokes as they are in this picture, in steps.
std::vector<Point> place_digit(Random& random, std::span<const Point> strokes) {
  const int scale_x = draw_between(random, 15, 23);
  const int scale_y = draw_between(random, 18, 23);
  const int slant = draw_between(random, -5, 5);
  const int move_x = draw_between(random, -2 * kSub, 2 * kSub);
  const int move_y = draw_between(random, -2 * kSub, 2 * kSub);
  std::vector<Point> placed;
  for (const Point& point : strokes) {
    const int dx = point.x - 5;
    const int dy = point.y - 7;
    placed.push_back(
        {kMnistSide * kSub / 2 + move_x + dx * scale_x - dy * slant + draw_between(random, -8, 8),
         kMnistSide * kSub / 2 + move_y + dy * scale_y + draw_between(random, -8, 8)});
  }
  return placed;
}

/// The square of the distance from a point to the line between two others.
int distance_squared(Point p, Point a, Point b) {
  const int bx = b.x - a.x;
  const int by = b.y - a.y;
  const int length_squared = std::max(1, bx * bx + by * by);
  const int along = std::clamp((p.x - a.x) * bx + (p.y - a.y) * by, 0, length_squared);
  const int dx = p.x - a.x - static_cast<int>(std::int64_t{bx} * along / length_squared);
  const int dy = p.y - a.y - static_cast<int>(std::int64_t{by} * along / length_squared);
  return dx * dx + dy * dy;
}

/// Full inside the pen, fading over one pixel around it.
int ink(int distance_squared_to_line, int pen) {
  const int inner = pen * pen;
  const int outer = (pen + kSub) * (pen + kSub);
  return std::clamp(255 * (outer - distance_squared_to_line) / (outer - inner), 0, 255);
}

void draw_mnist(Random& random, std::uint8_t shown, std::string& out) {
  const auto strokes = place_digit(random, kDigitShapes[shown]);
  const int pen = draw_between(random, 8, 20);
  for (int y = 0; y < kMnistSide; ++y) {
    for (int x = 0; x < kMnistSide; ++x) {
      const Point pixel{x * kSub + kSub / 2, y * kSub + kSub / 2};
      int nearest = distance_squared(pixel, strokes[0], strokes[1]);
      for (std::size_t i = 1; i + 1 < strokes.size(); ++i) {
        nearest = std::min(nearest, distance_squared(pixel, strokes[i], strokes[i + 1]));
      }
      out.push_back(to_byte(ink(nearest, pen) + draw_noise(random, 12)));
    }
  }
}

}  // namespace

double SyntheticImages::best_accuracy() const {
  if (labels.empty()) throw InvalidArgument("no pictures");
  std::size_t right = 0;
  for (std::size_t i = 0; i < labels.size(); ++i) right += labels[i] == classes[i] ? 1 : 0;
  return static_cast<double>(right) / static_cast<double>(labels.size());
}

SyntheticImages make_synthetic_cifar10(const SyntheticImageOptions& options) {
  return make_images(options, kCifar10ImageBytes, draw_cifar10);
}

SyntheticImages make_synthetic_mnist(const SyntheticImageOptions& options) {
  return make_images(options, kMnistImageBytes, draw_mnist);
}

}  // namespace muster
