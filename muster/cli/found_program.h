#pragma once

#include <string>

namespace muster::cli {

/// The file that a shell would start for a word, as an absolute path, so that it is the same one
/// whenever it is started: the path that the word is, or the name of a file in `package_path` or on
/// the PATH. As with gcloud a name may be that of a module: trainer.task is trainer/task beside the
/// package, or here without one. Throws UsageError for what cannot be executed.
std::string found_program(const std::string& word, const std::string& package_path = "");

/// The folder that holds a package.
std::string folder_of_package(const std::string& package_path);

}  // namespace muster::cli
