#include <fmt/core.h>

#include <memory>
#include <string>
#include <vector>

#include "muster/base/error.h"
#include "muster/cli/records_write.h"
#include "muster/cli/split_writer.h"
#include "muster/data/records/cifar10.h"
#include "muster/data/records/cifar10_pickle.h"
#include "muster/data/records/example_builder.h"

namespace muster::cli {
namespace {

struct WriteCifar10Options {
  std::string input;
  OutputOptions output;
};

/// Which of the six batches go into which file.
struct Part {
  const char* file;
  std::vector<std::string> batches;
};

std::vector<Part> parts() {
  return {{"train.tfrecords", {"data_batch_1", "data_batch_2", "data_batch_3", "data_batch_4"}},
          {"validation.tfrecords", {"data_batch_5"}},
          {"eval.tfrecords", {"test_batch"}}};
}

// Either version of the data set, in the folder itself or as its archive unpacks.
Path find_batch(const Path& folder, const std::string& batch) {
  const auto found =
      find_input(folder, {"cifar-10-batches-bin", "cifar-10-batches-py"}, {batch + ".bin", batch});
  if (found) return *found;
  throw NotFound(
      "{} has neither {}.bin nor {} (also .gz, .xz, or in cifar-10-batches-bin/ or -py/); "
      "--input must name the unpacked CIFAR-10 archive",
      folder.string(), batch, batch);
}

Cifar10Batch read_batch(const Path& path) {
  const bool binary = path.filename().string().find(".bin") != std::string::npos;
  return binary ? read_cifar10_binary(path) : read_cifar10_pickle(path).batch;
}

void run(const WriteCifar10Options& options) {
  // All inputs are looked for before the first output is begun.
  for (const auto& part : parts()) {
    for (const auto& batch : part.batches) find_batch(options.input, batch);
  }
  std::string record;
  for (const auto& part : parts()) {
    OutputFile file(options.output, part.file, 10'000 * part.batches.size());
    for (const auto& name : part.batches) {
      const Cifar10Batch batch = read_batch(find_batch(options.input, name));
      for (std::size_t i = 0; i < batch.size(); ++i) {
        record.clear();
        ExampleBuilder()
            .add_bytes("image", batch.image(i))
            .add_int("label", batch.labels[i])
            .serialize_to(record);
        file.append(record);
      }
    }
    file.close();
  }
  fmt::print("Done!\n");
}

}  // namespace

void add_write_cifar10(CLI::App& command) {
  const auto options = std::make_shared<WriteCifar10Options>();
  command.add_option("--input", options->input, "Folder of the unpacked binary or python version")
      ->required();
  add_output_flags(command, options->output);
  command.callback([options] { run(*options); });
}

}  // namespace muster::cli
