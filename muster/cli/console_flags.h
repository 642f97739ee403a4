#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <string>
#include <vector>

namespace muster::cli {

/// The flags of `muster console`.
struct ConsoleFlags {
  std::vector<std::string> log_folders{};
  double store_seconds = 10;
  std::string jobs_folder{};
  std::string models_folder{};
  std::vector<std::string> servers{};
  std::vector<std::string> data_folders{};
  std::vector<std::string> csv_columns{};
  std::string address = "127.0.0.1";
  std::uint16_t port = 6800;
  std::vector<std::string> host_names{};
  std::string tokens_file{};
  std::string tls_certificate{};
  std::string tls_key{};
  bool allow_changes = false;
};

void add_console_flags(CLI::App& command, ConsoleFlags& flags);

}  // namespace muster::cli
