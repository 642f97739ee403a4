#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "muster/base/file_system.h"

namespace muster::console {

struct ExampleFilesOptions {
  /// Folders whose files may be shown.
  std::vector<Path> folders{};
  /// Names of the fields of CSV files that have no header.
  std::vector<std::string> csv_columns{};
};

/// A row of a file, for a page that fills a form with it.
struct ExampleRow {
  /// Its values by name, a JSON object. Those of CSV are texts.
  std::string values{};
  /// The row as it is in the file: text, or base64 of a tf.Example.
  std::string raw{};
  bool is_base64 = false;
};

/// Files with examples, directly in some folders: CSV, JSON lines, and tf.Examples in TFRecord
/// files. A file is looked up among those that are listed: a name never becomes a path, and links
/// are not followed. May be called from any thread.
class ExampleFiles {
 public:
  /// Throws NotFound for a folder that is not there.
  explicit ExampleFiles(ExampleFilesOptions options);

  /// Names, with the place of the folder before them where there are several: "adult.test.csv",
  /// "1/adult.test.csv".
  std::vector<std::string> list() const;

  /// Rows of a file from one on, counted from 0; fewer at its end. CSV has the names of its header
  /// where that names one of `inputs`, else those of the options. Throws NotFound, and what damage
  /// throws.
  std::vector<ExampleRow> rows(const std::string& name, std::size_t from, std::size_t count,
                               const std::vector<std::string>& inputs) const;

 private:
  Path path_of(const std::string& name) const;

  ExampleFilesOptions options_;
};

}  // namespace muster::console
