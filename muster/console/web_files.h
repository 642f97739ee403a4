#pragma once

#include <span>
#include <string_view>

namespace muster::console {

/// A file of web/, as it was when this program was built.
struct WebFile {
  std::string_view name{};
  std::string_view bytes{};
};

std::span<const WebFile> web_files();

}  // namespace muster::console
