#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "muster/base/file_system.h"
#include "muster/data/records/cifar10.h"

namespace muster {

/// A file of CIFAR-10's python version.
struct Cifar10Pickle {
  Cifar10Batch batch{};
  /// Such as "training batch 1 of 5"; empty where the file has none.
  std::string batch_label{};
  /// One a picture, or none.
  std::vector<std::string> filenames{};
};

/// Recognises exactly the pickles that CIFAR-10 is made of: a dictionary of data (a numpy array of
/// N x 3,072 unsigned bytes), labels, batch_label and filenames, in any order, in protocol 2 as
/// Python 2 wrote it or 2 to 4 as Python 3 does. It is no unpickler: nothing is called or
/// constructed, whatever the file names. Throws NotFound, and DataLoss, with the offset, for
/// anything else.
Cifar10Pickle read_cifar10_pickle(const Path& path);
/// The same for the bytes of a file; `name` stands for it in messages.
Cifar10Pickle parse_cifar10_pickle(std::string_view bytes, std::string_view name);

/// The class names in batches.meta, in label order. Throws as above.
std::vector<std::string> read_cifar10_meta_pickle(const Path& path);
std::vector<std::string> parse_cifar10_meta_pickle(std::string_view bytes, std::string_view name);

}  // namespace muster
