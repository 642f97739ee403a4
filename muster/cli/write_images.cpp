#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "muster/base/file_system.h"
#include "muster/cli/records_write.h"
#include "muster/cli/split_writer.h"
#include "muster/data/images/image_decoder.h"
#include "muster/data/images/image_encoder.h"
#include "muster/data/images/image_files.h"
#include "muster/data/images/resize.h"
#include "muster/data/records/example_builder.h"

namespace muster::cli {
namespace {

struct WriteImagesOptions {
  std::string input;
  ImageListOptions list;
  std::string list_folder;
  std::int64_t shorter_side = 0;
  int quality = 92;
  OutputOptions output;
  SplitOptions split;
};

ImageFiles files_of(WriteImagesOptions options) {
  const auto status = file_system_for(options.input).status(options.input);
  if (status && status->is_directory) return image_folder(options.input);
  options.list.folder = options.list_folder;
  return image_list(options.input, options.list);
}

// A smaller picture with the same ratio.
std::string shrunk(ImageDecoder& decoder, const WriteImagesOptions& options) {
  const ImageHeader& size = decoder.header();
  const double scale = static_cast<double>(options.shorter_side) /
                       static_cast<double>(std::min(size.height, size.width));
  const auto scaled = [&](std::int64_t side) {
    return std::max<std::int64_t>(1, std::llround(scale * static_cast<double>(side)));
  };
  const ImageBox whole{.height = static_cast<double>(size.height),
                       .width = static_cast<double>(size.width)};
  return encode_jpeg(decoder.decode_resized(whole, scaled(size.height), scaled(size.width)),
                     options.quality);
}

/// `image` is the file as it is, or made smaller; it has been decoded in any case, so that records
/// have no damaged ones.
void write_image(const ImageFile& file, const WriteImagesOptions& options, std::string& out) {
  const std::string bytes = read_image_file(file.path);
  const std::string name = file.path.string();
  ImageDecoder decoder(bytes, name);
  const bool smaller =
      options.shorter_side > 0 &&
      std::min(decoder.header().height, decoder.header().width) > options.shorter_side;
  std::string written;
  if (smaller) {
    written = shrunk(decoder, options);
  } else {
    decoder.decode();
  }
  ExampleBuilder()
      .add_bytes("image", smaller ? std::string_view(written) : std::string_view(bytes))
      .add_int("label", file.label)
      .add_bytes("file", name)
      .serialize_to(out);
}

void run(const WriteImagesOptions& options) {
  const ImageFiles images = files_of(options);
  write_split(
      options.output, options.split, images.files.size(),
      [&](std::uint64_t i, std::string& out) { write_image(images.files[i], options, out); });
  std::string names;
  for (const std::string& name : images.classes) names += name + "\n";
  const Path path = Path(options.output.folder) / "classes.txt";
  write_file_atomically(path, names);
  fmt::print("Done! {} classes are named in {}\n", images.classes.size(), path.string());
}

}  // namespace

void add_write_images(CLI::App& command) {
  const auto options = std::make_shared<WriteImagesOptions>();
  command
      .add_option("--input", options->input,
                  "Folder with a folder of pictures for each class, or a CSV file with a header")
      ->required();
  command.add_option("--file-column", options->list.file_column, "Column of a CSV file with paths")
      ->capture_default_str();
  command
      .add_option("--label-column", options->list.label_column, "Column of a CSV file with classes")
      ->capture_default_str();
  command.add_option("--folder", options->list_folder,
                     "Paths of a CSV file are relative to it; by default to the file's");
  command
      .add_option("--shorter-side", options->shorter_side,
                  "Make larger pictures smaller, to so many pixels, as JPEG; 0 keeps all files")
      ->check(CLI::Range(std::int64_t{0}, std::int64_t{1} << 15))
      ->capture_default_str();
  command.add_option("--quality", options->quality, "Of JPEGs that are made smaller")
      ->check(CLI::Range(1, 100))
      ->capture_default_str();
  add_output_flags(command, options->output);
  add_split_flags(command, options->split);
  command.callback([options] { run(*options); });
}

}  // namespace muster::cli
