#pragma once

#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "muster/base/open_file.h"

namespace muster::testing {

/// Network, mounts and host name of their own, as a machine has them, for as long as this lives or
/// a process is in them. Nothing of it can be seen outside.
class NameSpace {
 public:
  /// Why they cannot be made here, or nothing.
  static std::optional<std::string> refusal();

  /// The file is seen there as /etc/hosts.
  NameSpace(const std::string& host_name, const std::filesystem::path& hosts_file);

  /// Calls it there, in a thread of its own; what it throws is thrown again.
  void run(const std::function<void()>& function) const;
  /// Words that stand before a program and its arguments to start it there.
  std::vector<std::string> words() const;
  /// NAME=value of a variable with which a program that calls enter_name_space() is there.
  std::string variable() const;
  /// File of its network, by which a device is moved there.
  std::string network_path() const { return path_of(*network_); }

 private:
  static std::string path_of(const OpenFile& file);

  std::optional<OpenFile> network_;
  std::optional<OpenFile> mounts_;
  std::optional<OpenFile> names_;
};

/// Enters what the environment says, if it says so; before the process has a second thread.
void enter_name_space();

}  // namespace muster::testing
