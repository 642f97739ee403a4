#include "made_data.h"

#include "data.h"

namespace {

/// Bars, whose place is the digit.
void write_images(const muster::Path& file, std::uint64_t seed, int count, bool labelled) {
  muster::Random random(seed);
  muster::RecordWriter writer(file);
  for (int i = 0; i < count; ++i) {
    const auto digit = static_cast<std::int64_t>(random.uniform(0, kClasses));
    std::vector<float> image(kPixels);
    for (std::int64_t row = 0; row < kSide; ++row) {
      for (std::int64_t column = 0; column < kSide; ++column) {
        const bool is_bar = column / 3 == digit || column == 27;
        image[static_cast<std::size_t>(row * kSide + column)] =
            static_cast<float>(random.uniform(0, 0.3)) + (is_bar ? 0.7F : 0.0F);
      }
    }
    muster::ExampleBuilder example;
    example.add_floats("image", image);
    if (labelled) example.add_int(muster::kLabel, digit);
    writer.append(example.serialize());
  }
  writer.close();
}

}  // namespace

MadeData make_data(const muster::Path& folder) {
  MadeData data{.train = folder / "train.tfrecords",
                .eval = folder / "eval.tfrecords",
                .test = folder / "test.tfrecords",
                .num_epochs = 4};
  write_images(data.train, 1, 256, true);
  write_images(data.eval, 2, 64, true);
  write_images(data.test, 3, 64, false);
  return data;
}
