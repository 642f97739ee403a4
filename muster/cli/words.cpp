#include "muster/cli/words.h"

namespace muster::cli {

std::vector<std::string> split(const std::string& text, char separator) {
  std::vector<std::string> parts;
  std::size_t begin = 0;
  for (;;) {
    const std::size_t end = text.find(separator, begin);
    parts.push_back(text.substr(begin, end - begin));
    if (end == std::string::npos) return parts;
    begin = end + 1;
  }
}

std::vector<std::string> split_outside_quotes(const std::string& text, char separator) {
  std::vector<std::string> parts(1);
  char quote = '\0';
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (quote == '\0' && c == separator) {
      parts.emplace_back();
      continue;
    }
    parts.back() += c;
    if (quote != '\0' && c == '\\' && i + 1 < text.size()) {
      parts.back() += text[++i];
    } else if (c == quote) {
      quote = '\0';
    } else if (quote == '\0' && (c == '\'' || c == '"')) {
      quote = c;
    }
  }
  return parts;
}

}  // namespace muster::cli
