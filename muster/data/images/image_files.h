#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "muster/base/file_system.h"
#include "muster/data/dataset/type_fwd.h"

namespace muster {

/// One file of pictures and the number of its class.
struct ImageFile {
  Path path{};
  std::int64_t label = 0;
};

/// The files of a set of pictures, in an order that is the same on every machine.
struct ImageFiles {
  std::vector<ImageFile> files{};
  /// Names by number.
  std::vector<std::string> classes{};
};

/// FOLDER/CLASS/.../NAME: each folder is a class, numbered in the order of their names, and all
/// .jpg, .jpeg, .png and .webp files below it belong to it, sorted by path. `classes`, if given,
/// are the only ones that may be there: those of the training data, for the evaluation's. Throws
/// NotFound for a folder without classes or a class without pictures, and InvalidArgument for a
/// class that is not among `classes`.
ImageFiles image_folder(const Path& folder, const std::vector<std::string>& classes = {});

struct ImageListOptions {
  /// Columns of the header row.
  std::string file_column = "file";
  std::string label_column = "label";
  /// Files are relative to this folder; empty: to that of the list.
  Path folder{};
  /// The classes by number; empty: the names in the list, sorted. Where all of these are whole
  /// numbers from 0 on, they are the numbers of the classes.
  std::vector<std::string> classes{};
};

/// The files of a CSV file with a header, in its order. Throws InvalidArgument with file, line and
/// field for a row that is wrong, a class that is not among the given ones, or a column that is not
/// there.
ImageFiles image_list(const Path& csv, const ImageListOptions& options = {});

/// The files as a stream. It has random access, which global_shuffle() needs.
Dataset<ImageFile> image_files(ImageFiles files);

/// All bytes of a picture's file; at most 1 GiB.
std::string read_image_file(const Path& path);

}  // namespace muster
