#include <fmt/core.h>

#include <array>
#include <memory>
#include <string>
#include <vector>

#include "muster/base/error.h"
#include "muster/cli/records_write.h"
#include "muster/cli/split_writer.h"
#include "muster/data/records/example_builder.h"
#include "muster/data/records/idx.h"

namespace muster::cli {
namespace {

constexpr unsigned kClasses = 10;

struct WriteMnistOptions {
  std::string input;
  bool raw = false;
  OutputOptions output;
  SplitOptions split;
};

struct Pictures {
  IdxArray images;
  IdxArray labels;
};

// Published as "train-images-idx3-ubyte"; some copies have a dot before "idx".
IdxArray read(const Path& folder, const std::string& stem, const std::string& ending,
              std::size_t rank) {
  const auto path = find_input(folder, {}, {stem + "-" + ending, stem + "." + ending});
  if (!path) {
    throw NotFound(
        "{} has no {}-{} (also .gz, .xz); --input must name the folder of MNIST's IDX files",
        folder.string(), stem, ending);
  }
  IdxArray array = read_idx(*path);
  if (array.type != IdxType::kUint8 || array.shape.size() != rank) {
    throw DataLoss("{} holds {} dimensions, {} of unsigned bytes are expected", path->string(),
                   array.shape.size(), rank);
  }
  return array;
}

Pictures read_pair(const Path& folder, const std::string& set) {
  Pictures pair{read(folder, set + "-images", "idx3-ubyte", 3),
                read(folder, set + "-labels", "idx1-ubyte", 1)};
  if (pair.images.items() != pair.labels.items()) {
    throw DataLoss("{}: the set {} has {} images but {} labels", folder.string(), set,
                   pair.images.items(), pair.labels.items());
  }
  for (std::size_t i = 0; i < pair.labels.items(); ++i) {
    const auto label = static_cast<unsigned char>(pair.labels.data[i]);
    if (label >= kClasses)
      throw DataLoss("{}: label {} of the set {} is {}", folder.string(), i, set, label);
  }
  return pair;
}

/// `image` is 784 floats in [0, 1], or with --raw one string of 784 bytes; `label` is one integer.
class MnistRecordWriter {
 public:
  MnistRecordWriter(const Pictures& pictures, bool raw) : pictures_(pictures), raw_(raw) {}

  void operator()(std::uint64_t i, std::string& out) {
    const std::string_view image = pictures_.images.item(i);
    ExampleBuilder builder;
    if (raw_) {
      builder.add_bytes("image", image);
    } else {
      floats_.clear();
      for (const char c : image)
        floats_.push_back(static_cast<float>(static_cast<unsigned char>(c)) / 255.0F);
      builder.add_floats("image", floats_);
    }
    builder.add_int("label", static_cast<unsigned char>(pictures_.labels.data[i]));
    builder.serialize_to(out);
  }

 private:
  const Pictures& pictures_;
  bool raw_;
  std::vector<float> floats_;
};

void run(const WriteMnistOptions& options) {
  const Pictures train = read_pair(options.input, "train");
  const Pictures eval = read_pair(options.input, "t10k");
  write_split(options.output, options.split, train.images.items(),
              MnistRecordWriter(train, options.raw));
  OutputFile file(options.output, "eval.tfrecords", eval.images.items());
  MnistRecordWriter writer(eval, options.raw);
  std::string record;
  for (std::uint64_t i = 0; i < eval.images.items(); ++i) {
    record.clear();
    writer(i, record);
    file.append(record);
  }
  file.close();
  fmt::print("Done!\n");
}

}  // namespace

void add_write_mnist(CLI::App& command) {
  const auto options = std::make_shared<WriteMnistOptions>();
  command.add_option("--input", options->input, "Folder of the four IDX files, also compressed")
      ->required();
  command.add_flag("--raw", options->raw,
                   "Store an image as one string of bytes, not as floats in [0, 1]");
  add_output_flags(command, options->output);
  add_split_flags(command, options->split);
  command.callback([options] { run(*options); });
}

}  // namespace muster::cli
