#pragma once

#include <CLI/CLI.hpp>
#include <string>

#include "muster/base/file_system.h"

namespace muster::cli {

/// Script that completes the commands and flags of `app` in a shell: "bash", "zsh" or "fish". Made
/// from the commands themselves, so it knows every flag that they know. Throws InvalidArgument.
std::string completion_script(const CLI::App& app, const std::string& shell);

/// The manual page of one command, in the language of man(7).
std::string manual_page(const CLI::App& command);

/// Writes muster.1 and one page per command, muster-records-write.1, into a folder; returns how
/// many.
int write_manual_pages(const CLI::App& app, const Path& folder);

}  // namespace muster::cli
