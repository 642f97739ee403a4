#pragma once

#include <memory>
#include <optional>
#include <string>

#include "muster/testing/process.h"

namespace muster::testing {

/// A WebHDFS that we did not write: the program that MUSTER_WEBHDFS_EMULATOR names, or
/// ../tools/webhdfs_emulator.py beside MUSTER_DATA_DIR.
class WebHdfsEmulator {
 public:
  /// Null where there is none.
  static std::unique_ptr<WebHdfsEmulator> start();

  /// URL of its namenode.
  const std::string& url() const { return url_; }

 private:
  WebHdfsEmulator(const std::filesystem::path& program, int port);

  TempDir files_;
  std::string url_;
  RunningProgram server_;
};

}  // namespace muster::testing
