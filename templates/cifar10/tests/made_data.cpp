#include "made_data.h"

#include "data.h"

namespace {

/// Pictures of one colour and some noise; the colour is the class.
void write_images(const muster::Path& file, std::uint64_t seed, int count) {
  muster::Random random(seed);
  muster::RecordWriter writer(file);
  for (int i = 0; i < count; ++i) {
    const auto label = static_cast<std::int64_t>(random.uniform(0, kClasses));
    std::string planes;
    for (std::int64_t channel = 0; channel < kChannels; ++channel) {
      const double level = 255.0 * static_cast<double>((label >> channel) % 2);
      for (std::int64_t pixel = 0; pixel < kSide * kSide; ++pixel) {
        planes += static_cast<char>(0.8 * level + random.uniform(0, 50));
      }
    }
    muster::ExampleBuilder example;
    example.add_bytes("image", planes).add_int(muster::kLabel, label);
    writer.append(example.serialize());
  }
  writer.close();
}

}  // namespace

MadeData make_data(const muster::Path& folder) {
  // Eight colours for ten classes: two of them look like two others.
  MadeData data{.train = folder / "train.tfrecords",
                .eval = folder / "eval.tfrecords",
                .test = folder / "test.tfrecords",
                .num_epochs = 20};
  write_images(data.train, 1, 128);
  write_images(data.eval, 2, 128);
  write_images(data.test, 3, 128);
  return data;
}
