#include "muster/data/images/image_files.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstddef>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <utility>

#include "muster/base/error.h"
#include "muster/base/log.h"
#include "muster/data/dataset/dataset.h"
#include "muster/data/records/csv.h"

namespace muster {
namespace {

constexpr std::int64_t kMaxClasses = std::int64_t{1} << 24;
// Folders that link to one that contains them never end.
constexpr int kMaxDepth = 64;

bool has_image_ending(const Path& path) {
  constexpr std::array<std::string_view, 4> kEndings = {".jpg", ".jpeg", ".png", ".webp"};
  std::string ending = path.extension().string();
  for (char& c : ending) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  return std::find(kEndings.begin(), kEndings.end(), ending) != kEndings.end();
}

bool is_folder(const Path& path) {
  const auto status = file_system_for(path).status(path);
  return status && status->is_directory;
}

/// Files below the folder of a class.
struct Found {
  std::vector<Path> images{};
  std::size_t others = 0;
};

void find_images(const Path& folder, int depth, Found& found) {
  if (depth > kMaxDepth) {
    throw InvalidArgument("{}: folders are nested more than {} deep", folder.string(), kMaxDepth);
  }
  for (const std::string& name : file_system_for(folder).list(folder)) {
    const Path path = folder / name;
    if (has_image_ending(path)) {
      found.images.push_back(path);
    } else if (is_folder(path)) {
      find_images(path, depth + 1, found);
    } else {
      ++found.others;
    }
  }
}

std::vector<std::string> class_folders(const Path& folder) {
  std::vector<std::string> names;
  for (std::string& name : file_system_for(folder).list(folder)) {
    if (!name.starts_with('.') && is_folder(folder / name)) names.push_back(std::move(name));
  }
  if (names.empty()) {
    throw NotFound(
        "{} has no folders of classes: it must have one for each class, or be described by a CSV "
        "file",
        folder.string());
  }
  return names;
}

/// Numbers of classes by their names: a list may have a million rows and a thousand classes.
class ClassNumbers {
 public:
  /// `classes` outlives it.
  explicit ClassNumbers(const std::vector<std::string>& classes) : known_(classes.size()) {
    std::int64_t number = 0;
    for (const std::string& name : classes) numbers_.emplace(name, number++);
  }

  std::int64_t of(std::string_view name, std::string_view where) const {
    const auto place = numbers_.find(name);
    if (place != numbers_.end()) return place->second;
    throw InvalidArgument("{}: the class '{}' is not among the {} known ones", where, name, known_);
  }

 private:
  std::size_t known_;
  std::map<std::string_view, std::int64_t> numbers_{};
};

std::optional<std::int64_t> whole_number(std::string_view text) {
  std::int64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size() || number < 0) return std::nullopt;
  return number;
}

/// A row of the list.
struct ListedImage {
  std::string file;
  std::string label;
  std::string where;
};

std::size_t column_of(const std::vector<std::string>& header, const std::string& name,
                      const Path& csv) {
  const auto place = std::find(header.begin(), header.end(), name);
  if (place == header.end()) {
    throw InvalidArgument(
        "{} line 1: there is no column '{}'; name the columns by "
        "ImageListOptions::file_column and label_column",
        csv.string(), name);
  }
  return static_cast<std::size_t>(place - header.begin());
}

std::vector<ListedImage> read_list(const Path& csv, const ImageListOptions& options) {
  const auto rows = open_csv(csv, {.skip_empty_lines = true});
  Record record;
  if (!rows->next(record)) throw InvalidArgument("{}: the list is empty", csv.string());
  const std::vector<std::string> header = split_csv_row(record.bytes);
  const std::size_t file = column_of(header, options.file_column, csv);
  const std::size_t label = column_of(header, options.label_column, csv);
  std::vector<ListedImage> images;
  for (std::uint64_t number = rows->position(); rows->next(record); number = rows->position()) {
    std::vector<std::string> fields = split_csv_row(record.bytes);
    std::string where = rows->where(number);
    if (fields.size() != header.size()) {
      throw InvalidArgument("{}: {} fields, but the header has {}", where, fields.size(),
                            header.size());
    }
    if (fields[file].empty() || fields[label].empty()) {
      throw InvalidArgument("{}: field '{}' is empty", where,
                            fields[file].empty() ? options.file_column : options.label_column);
    }
    images.push_back({std::move(fields[file]), std::move(fields[label]), std::move(where)});
  }
  if (images.empty()) throw InvalidArgument("{}: the list has no rows", csv.string());
  return images;
}

// The classes of a list that comes without: numbers as they are, or names in their order.
std::vector<std::string> classes_of(const std::vector<ListedImage>& images) {
  std::int64_t most = -1;
  std::set<std::string> names;
  for (const ListedImage& image : images) {
    names.insert(image.label);
    const auto number = whole_number(image.label);
    most = number && most < kMaxClasses ? std::max(most, *number) : kMaxClasses;
  }
  if (most >= kMaxClasses) return {names.begin(), names.end()};
  std::vector<std::string> classes;
  classes.reserve(static_cast<std::size_t>(most) + 1);
  for (std::int64_t i = 0; i <= most; ++i) classes.push_back(std::to_string(i));
  return classes;
}

}  // namespace

ImageFiles image_folder(const Path& folder, const std::vector<std::string>& classes) {
  const std::vector<std::string> names = class_folders(folder);
  ImageFiles images{.classes = classes.empty() ? names : classes};
  const ClassNumbers numbers(images.classes);
  std::size_t others = 0;
  for (const std::string& name : names) {
    const std::int64_t label = numbers.of(name, folder.string());
    Found found;
    find_images(folder / name, 0, found);
    if (found.images.empty()) {
      throw NotFound("{} has no .jpg, .jpeg, .png or .webp files", (folder / name).string());
    }
    std::sort(found.images.begin(), found.images.end());
    images.files.reserve(images.files.size() + found.images.size());
    for (Path& path : found.images) images.files.push_back({std::move(path), label});
    others += found.others;
  }
  log::info("found images={} classes={} other_files={} folder={}", images.files.size(),
            images.classes.size(), others, folder.string());
  return images;
}

ImageFiles image_list(const Path& csv, const ImageListOptions& options) {
  const std::vector<ListedImage> listed = read_list(csv, options);
  ImageFiles images{.classes = options.classes.empty() ? classes_of(listed) : options.classes};
  const Path folder = options.folder.empty() ? csv.parent_path() : options.folder;
  const ClassNumbers numbers(images.classes);
  images.files.reserve(listed.size());
  for (const ListedImage& image : listed) {
    images.files.push_back({folder / image.file, numbers.of(image.label, image.where)});
  }
  return images;
}

Dataset<ImageFile> image_files(ImageFiles files) {
  const auto shared = std::make_shared<const ImageFiles>(std::move(files));
  return Dataset<ImageFile>(indexed_source<ImageFile>(
      "image_files", shared->files.size(),
      [shared](std::uint64_t i) -> ImageFile { return shared->files[i]; }));
}

std::string read_image_file(const Path& path) {
  constexpr std::uint64_t kMaxFileBytes = std::uint64_t{1} << 30;
  return read_file(path, kMaxFileBytes);
}

}  // namespace muster
